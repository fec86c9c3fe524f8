#include "draftsmith/draft/draft_session.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <numeric>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/dflash/layer.h"
#include "draftsmith/draft/loss_rows.h"
#include "draftsmith/nn/ops.h"

namespace draftsmith {

struct DraftSession::State {
  DrafterConfig config;
  DrafterParams params;        // matrices in the compute type, cast once
  at::Tensor embedding, head;  // [V, H], [V_draft, H]; the head in the compute type
  DraftVocab vocab;
  at::ScalarType type = at::kFloat;
  std::int64_t capacity = 0, length = 0;
  std::vector<KeyValue> cache;  // a layer: [Hkv, capacity + B, D], the first `length` rows filled

  std::vector<std::int64_t> positions(std::int64_t count) const {
    std::vector<std::int64_t> list(static_cast<std::size_t>(count));
    std::iota(list.begin(), list.end(), length);
    return list;
  }
  // Behind the context's.
  void put(std::int64_t layer, const KeyValue& rows) const {
    cache[layer].k.narrow(1, length, rows.k.size(1)).copy_(rows.k);
    cache[layer].v.narrow(1, length, rows.v.size(1)).copy_(rows.v);
  }
  at::Tensor block_embeddings(std::int32_t anchor_token) const;
  at::Tensor hidden_of_block(std::int32_t anchor_token) const;
};

DraftSession::DraftSession(const DrafterConfig& config, const DrafterParams& params, at::Tensor embedding,
                           at::Tensor head, std::int64_t capacity, Compute compute, const DraftVocab& vocab)
    : state_(std::make_unique<State>()) {
  const c10::NoGradGuard no_gradients;
  State& s = *state_;
  s.config = config;
  s.params = params;
  s.type = scalar_type_of(compute);
  visit_params(s.params, [&](const std::string&, at::Tensor& tensor) {
    tensor = tensor.detach();
    if (tensor.dim() == 2) tensor = tensor.to(s.type);
  });
  s.embedding = std::move(embedding);
  s.head = head.to(s.type);
  s.vocab = vocab;
  s.capacity = capacity;
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const std::vector<std::int64_t> shape = {config.num_kv_heads, capacity + config.block_size, config.head_dim};
    s.cache.push_back({at::empty(shape, at::TensorOptions(s.type)), at::empty(shape, at::TensorOptions(s.type))});
  }
}

DraftSession::~DraftSession() = default;

std::int64_t DraftSession::length() const { return state_->length; }

void DraftSession::append(const at::Tensor& features) {
  const c10::NoGradGuard no_gradients;
  State& s = *state_;
  const std::int64_t count = features.size(0);
  DRAFTSMITH_ASSERT(s.length + count <= s.capacity);
  if (count == 0) return;
  const Rope rope = make_rope(s.positions(count), s.config.head_dim, s.config.rope_theta);
  const at::Tensor context = project_context(s.config, s.params, features, s.type);
  for (std::int64_t i = 0; i < s.config.num_layers; ++i) {
    s.put(i, key_value(s.config, s.params.layers[i], context, rope));
  }
  s.length += count;
}

at::Tensor DraftSession::State::block_embeddings(std::int32_t anchor_token) const {
  DRAFTSMITH_ASSERT(anchor_token >= 0 && anchor_token < embedding.size(0));
  const at::Tensor x = at::empty({config.block_size, config.hidden_size}, at::TensorOptions(at::kFloat));
  x.narrow(0, 0, 1).copy_(embedding.narrow(0, anchor_token, 1));
  x.narrow(0, 1, config.block_size - 1).copy_(embedding.narrow(0, config.mask_token_id, 1));
  return x;
}

// Whole blocks always: a slot's neighbours are part of what it was trained on, however few drafts are asked for.
at::Tensor DraftSession::State::hidden_of_block(std::int32_t anchor_token) const {
  const Rope rope = make_rope(positions(config.block_size), config.head_dim, config.rope_theta);
  const std::vector<std::int64_t> anchors = {length}, begins = {0};
  Stream x{block_embeddings(anchor_token), {}};
  std::shared_ptr<const KeyRanges> full, sliding;  // once a block, for all layers of a kind
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const LayerKind kind = config.layer_kinds[i];
    std::shared_ptr<const KeyRanges>& ranges = kind == LayerKind::kSliding ? sliding : full;
    if (ranges == nullptr)
      ranges = make_key_ranges(config, kind, anchors, begins, length, attention_path_for(config.head_dim));
    // The block's keys stand behind the context's until the next committed position takes their place.
    const auto keys = [&](const at::Tensor& u) {
      put(i, key_value(config, params.layers[i], u, rope));
      const std::int64_t end = length + config.block_size;
      return KeyValue{cache[i].k.narrow(1, 0, end), cache[i].v.narrow(1, 0, end)};
    };
    x = layer_forward(config, params.layers[i], x, {rope, ranges, keys}, type);
  }
  return add_rms_norm(x, params.norm, config.rms_norm_eps, type).normed;
}

std::vector<std::int32_t> DraftSession::propose(std::int32_t anchor_token, std::int64_t num_drafts) {
  const c10::NoGradGuard no_gradients;
  const State& s = *state_;
  DRAFTSMITH_ASSERT(num_drafts >= 1 && num_drafts < s.config.block_size);
  const at::Tensor logits = linear(s.hidden_of_block(anchor_token).narrow(0, 1, num_drafts), s.head);
  std::vector<std::int32_t> drafts;
  for (std::int64_t j = 0; j < num_drafts; ++j) {
    const at::Tensor row = logits.select(0, j);
    const std::int64_t best = s.type == at::kBFloat16
                                  ? row_best(static_cast<const std::uint16_t*>(row.const_data_ptr()), row.numel())
                                  : row_best(row.const_data_ptr<float>(), row.numel());
    drafts.push_back(s.vocab.target_id(best));
  }
  return drafts;
}

}  // namespace draftsmith
