// The drafter: parameters and the forward pass of training. Shapes: S context tokens, A blocks of B slots, K taps, H
// hidden.
//   c = hidden_norm(fc(features));  x = embeddings of the blocks;  layers;  hidden = norm(x)
// The head is the target's and frozen: see loss.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "draftsmith/base/choices.h"
#include "draftsmith/base/rng.h"
#include "draftsmith/draft/dflash/block_inputs.h"
#include "draftsmith/draft/draft_vocab.h"
#include "draftsmith/draft/drafter_config.h"

namespace draftsmith {

struct LayerParams {
  at::Tensor input_layernorm, q_proj, k_proj, v_proj, o_proj, q_norm, k_norm, post_attention_layernorm, gate_proj,
      up_proj, down_proj;
};

struct DrafterParams {
  at::Tensor fc, hidden_norm, norm;
  std::vector<LayerParams> layers;
};

// Calls visit(name, tensor) for every parameter of a layer under its z-lab name behind `prefix`, always in the same
// order.
template <class Layer, class Visit>
void visit_layer(Layer& layer, const std::string& prefix, Visit&& visit) {
  visit(prefix + "input_layernorm.weight", layer.input_layernorm);
  visit(prefix + "self_attn.q_proj.weight", layer.q_proj);
  visit(prefix + "self_attn.k_proj.weight", layer.k_proj);
  visit(prefix + "self_attn.v_proj.weight", layer.v_proj);
  visit(prefix + "self_attn.o_proj.weight", layer.o_proj);
  visit(prefix + "self_attn.q_norm.weight", layer.q_norm);
  visit(prefix + "self_attn.k_norm.weight", layer.k_norm);
  visit(prefix + "post_attention_layernorm.weight", layer.post_attention_layernorm);
  visit(prefix + "mlp.gate_proj.weight", layer.gate_proj);
  visit(prefix + "mlp.up_proj.weight", layer.up_proj);
  visit(prefix + "mlp.down_proj.weight", layer.down_proj);
}

// The same for all parameters of a drafter: init, optimizer, checkpoint, export and count walk this list.
template <class Params, class Visit>
void visit_params(Params& params, Visit visit) {
  visit(std::string("fc.weight"), params.fc);
  visit(std::string("hidden_norm.weight"), params.hidden_norm);
  for (std::size_t i = 0; i < params.layers.size(); ++i)
    visit_layer(params.layers[i], "layers." + std::to_string(i) + ".", visit);
  visit(std::string("norm.weight"), params.norm);
}

// Parameters of the right shapes: fp32, uninitialised, no gradient asked for.
DrafterParams empty_params(const DrafterConfig& config);
// The same without memory (meta tensors): names and shapes, before a file's numbers are believed.
DrafterParams shape_params(const DrafterConfig& config);
// Matrices N(0, 0.02^2) drawn in the order of visit_params, norms 1.
void init_random(DrafterParams& params, Rng& rng);
std::int64_t num_parameters(const DrafterConfig& config);

struct ForwardInputs {
  at::Tensor features;          // [S, K*H], any float type
  at::Tensor block_embeddings;  // [A*B, H]: the target's embedding of block_token_ids
  const BlockInputs* blocks = nullptr;
  std::vector<at::Tensor>* layer_outputs = nullptr;  // when set, gets x after each layer
  bool recompute = false;  // keep a layer's inputs only and compute it again on the way back: less memory, more work
};
// Hidden states after `norm` [A*B, H] in the compute type; differentiable in the parameters.
at::Tensor drafter_forward(const DrafterConfig& config, const DrafterParams& params, const ForwardInputs& inputs,
                           Compute compute);

// A drafter folder: config.json + model.safetensors (one file or shards). Checks every name and shape; tensors come as
// fp32.
struct LoadedDrafter {
  DrafterConfig config;
  DrafterParams params;
  DraftVocab vocab = {};  // whole unless config.draft_vocab_size says otherwise
};
LoadedDrafter read_drafter_folder(const std::filesystem::path& folder);

}  // namespace draftsmith
