// A decoder is a stack of layers (RMSNorm, grouped-query attention with rotary positions, gated MLP) between an
// embedding and a head. Its shape holds the sizes that targets and drafters have.
#pragma once

#include <cstdint>

#include "draftsmith/nn/rope.h"

namespace draftsmith {

struct DecoderShape {
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab_size = 0;      // rows of the embedding
  std::int64_t context_length = 0;  // positions it was trained for
  double rope_theta = 10000.0;
  RopeScaling rope_scaling = {};
  double norm_eps = 1e-5;
  bool qk_norm = true;  // queries and keys are normalised head by head
  bool qkv_bias = false, o_bias = false;
};

}  // namespace draftsmith
