// A small random drafter and packs of random documents, for tests.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <vector>

#include "draftsmith/draft/dflash/dflash_drafter.h"
#include "draftsmith/draft/drafter.h"
#include "draftsmith/nn/test_random.h"

namespace draftsmith {

// One thread of torch within a scope.
struct OneThread {
  const int before = at::get_num_threads();
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before); }
};

inline DrafterConfig small_config() {
  DrafterConfig config;
  config.hidden_size = 48;
  config.intermediate_size = 80;
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.vocab_size = 61;
  config.block_size = 4;
  config.mask_token_id = 60;
  config.target_layer_ids = {1, 3};
  config.num_target_layers = 6;
  config.layer_kinds.assign(3, LayerKind::kFull);
  return config;
}

inline DrafterConfig small_sliding_config(std::int64_t window) {
  DrafterConfig config = small_config();
  config.layer_kinds[0] = config.layer_kinds[1] = LayerKind::kSliding;
  config.sliding_window = window;
  return config;
}

// Larger than the usual start, so that every part of the drafter matters.
inline DFlashParams random_params(const DrafterConfig& config, std::uint64_t seed = 1) {
  DFlashParams params = empty_dflash_params(config);
  Rng rng(seed, RngPurpose::kTest);
  visit_params(params, [&](const std::string&, at::Tensor& t, Role role) {
    t = role == Role::kNorm ? random_tensor(rng, t.sizes().vec(), 0.3) + 1.0
                            : random_tensor(rng, t.sizes().vec(), 0.15);
    t.requires_grad_(true);
  });
  return params;
}

// Tokens and features of one document.
struct TestDocument {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t> loss_mask;
  at::Tensor features;  // [length, K*H]
};

inline TestDocument random_document(const DrafterConfig& config, std::int64_t length, std::uint64_t seed) {
  Rng rng(seed, RngPurpose::kTest, {7});
  TestDocument document;
  for (std::int64_t i = 0; i < length; ++i)
    document.tokens.push_back(static_cast<std::int32_t>(rng.below(config.vocab_size - 1)));
  document.loss_mask.assign(static_cast<std::size_t>(length), 1);
  document.features = random_tensor(rng, {length, config.num_taps() * config.hidden_size});
  return document;
}

struct TestPack {
  Pack pack;
  at::Tensor features;
};

inline TestPack pack_of(const DrafterConfig& config, const std::vector<TestDocument>& documents,
                        std::int64_t padding = 0) {
  TestPack out;
  Pack& pack = out.pack;
  for (const TestDocument& document : documents) pack.length += static_cast<std::int64_t>(document.tokens.size());
  out.features =
      at::empty({pack.length + padding, config.num_taps() * config.hidden_size}, at::TensorOptions(at::kFloat));
  out.features.fill_(3.0);
  std::int64_t begin = 0, id = 0;
  for (const TestDocument& document : documents) {
    const auto length = static_cast<std::int64_t>(document.tokens.size());
    out.features.narrow(0, begin, length).copy_(document.features);
    for (std::int64_t i = 0; i < length; ++i) {
      pack.token_ids.push_back(document.tokens[i]);
      pack.document_ids.push_back(static_cast<std::int32_t>(id));
      pack.position_ids.push_back(i);
      pack.loss_mask.push_back(document.loss_mask[i]);
    }
    pack.documents.push_back({.document = id++, .begin = begin, .length = length});
    begin += length;
  }
  for (std::int64_t i = 0; i < padding; ++i) {
    pack.token_ids.push_back(0);
    pack.document_ids.push_back(-1);
    pack.position_ids.push_back(0);
    pack.loss_mask.push_back(0);
  }
  pack.length += padding;
  return out;
}

// All anchors a of document `d` of the pack: loss_mask[a] and loss_mask[a + 1] are set.
inline std::vector<std::int64_t> all_anchors(const Pack& pack, std::size_t d) {
  const DocumentSpan& span = pack.documents[d];
  std::vector<std::int64_t> anchors;
  for (std::int64_t a = span.begin; a + 1 < span.begin + span.length; ++a) {
    if (pack.loss_mask[a] && pack.loss_mask[a + 1]) anchors.push_back(a);
  }
  return anchors;
}

inline const Place kFloatPlace{.compute = at::kFloat};

// The results of the objective for a pack, with the target's embedding as its head.
struct Outcome {
  LossSums sums;
  at::Tensor hidden;                  // [A*B, H]
  at::Tensor nll;                     // [A, B], 0 where a slot has no weight
  std::vector<at::Tensor> gradients;  // of the parameters, of loss_sum
};

inline at::Tensor traced(const Trace& trace, const std::string& name) {
  for (const auto& [known, tensor] : trace)
    if (known == name) return tensor;
  return {};
}

inline Outcome run_pack(const DrafterConfig& config, const DFlashParams& params, const at::Tensor& embedding,
                        const TestPack& in, const std::vector<std::int64_t>& anchors, const Place& place = kFloatPlace,
                        bool recompute = false) {
  DFlashDrafter drafter(config, params, place);
  for (const Param& param : drafter.params()) param.tensor.mutable_grad() = at::Tensor();
  Trace trace;
  Outcome out;
  out.sums = drafter.objective(freeze(embedding, embedding, {}, place),
                               {.pack = in.pack, .anchors = anchors, .taps = in.features},
                               {.recompute = recompute, .trace = &trace});
  out.hidden = traced(trace, "hidden");
  out.nll = traced(trace, "nll");
  for (const Param& param : drafter.params()) out.gradients.push_back(param.tensor.grad());
  return out;
}

}  // namespace draftsmith
