// The forward pass of training. Shapes: S context tokens, A blocks of B slots, K taps, H hidden.
//   c = hidden_norm(fc(taps));  x = embeddings of the blocks;  layers;  hidden = norm(x)
// The head is the target's and is not trained: see loss.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "draftsmith/draft/dflash/block_inputs.h"
#include "draftsmith/draft/dflash/params.h"

namespace draftsmith {

struct ForwardInputs {
  at::Tensor taps;              // [S, K*H], any float type
  at::Tensor block_embeddings;  // [A*B, H]: the target's embedding of block_token_ids
  const BlockInputs* blocks = nullptr;
  std::vector<at::Tensor>* layer_outputs = nullptr;  // when set, gets x after each layer
  bool recompute = false;  // keep only a layer's inputs and recompute it in the backward pass: less memory, more work
};
// Hidden states after `norm` [A*B, H] in the compute type; differentiable in the parameters and the taps.
at::Tensor dflash_forward(const DrafterConfig& config, const DFlashParams& params, const ForwardInputs& inputs,
                          at::ScalarType compute);

// c = hidden_norm(fc(taps)): [S, K*H] -> [S, H] in the compute type.
at::Tensor project_context(const DrafterConfig& config, const DFlashParams& params, const at::Tensor& taps,
                           at::ScalarType compute);

}  // namespace draftsmith
