#include "draftsmith/draft/dflash/session.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <numeric>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/dflash/forward.h"
#include "draftsmith/draft/loss_rows.h"

namespace draftsmith {

DFlashSession::DFlashSession(const DrafterConfig& config, const DFlashParams& params, const Place& place,
                             const Frozen& frozen, std::int64_t capacity)
    : config_(config), params_(params), place_(place), frozen_(frozen), capacity_(capacity) {
  DRAFTSMITH_ASSERT(params.fc.scalar_type() == place.compute && frozen.head.scalar_type() == place.compute);
  for (std::int64_t i = 0; i < config.num_layers; ++i) cache_.emplace_back(config, capacity + config.block_size, place);
}

std::vector<std::int64_t> DFlashSession::next_positions(std::int64_t count) const {
  std::vector<std::int64_t> list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), length_);
  return list;
}

void DFlashSession::append(const at::Tensor& taps) {
  const c10::NoGradGuard no_gradients;
  const std::int64_t count = taps.size(0);
  DRAFTSMITH_ASSERT(length_ + count <= capacity_);
  if (count == 0) return;
  const Rope rope = rope_of(config_, next_positions(count), place_.device);
  const at::Tensor context = project_context(config_, params_, taps, place_.compute);
  for (std::int64_t i = 0; i < config_.num_layers; ++i)
    cache_[i].put(length_, key_value(config_, params_.layers[i], context, rope));
  length_ += count;
}

at::Tensor DFlashSession::block_embeddings(std::int32_t anchor_token) const {
  DRAFTSMITH_ASSERT(anchor_token >= 0 && anchor_token < frozen_.embedding.size(0));
  at::Tensor x = at::empty({config_.block_size, config_.hidden_size}, place_.floats());
  x.narrow(0, 0, 1).copy_(frozen_.embedding.narrow(0, anchor_token, 1));
  x.narrow(0, 1, config_.block_size - 1).copy_(frozen_.embedding.narrow(0, config_.mask_token_id, 1));
  return x;
}

// Always runs a whole block, however few drafts are asked for: a slot was trained with its neighbours.
at::Tensor DFlashSession::hidden_of_block(std::int32_t anchor_token) {
  const Rope rope = rope_of(config_, next_positions(config_.block_size), place_.device);
  const std::vector<std::int64_t> anchors = {length_}, begins = {0};
  Residual x{block_embeddings(anchor_token), {}};
  MaskPtr full, sliding;  // made once per block for all layers of a kind
  for (std::int64_t i = 0; i < config_.num_layers; ++i) {
    const LayerKind kind = config_.layer_kinds[i];
    MaskPtr& mask = kind == LayerKind::kSliding ? sliding : full;
    if (mask == nullptr) mask = make_dflash_mask(config_, kind, anchors, begins, length_);
    // The block's keys stand behind the context's until the next committed position takes their place.
    const auto keys = [&](const at::Tensor& u) {
      cache_[i].put(length_, key_value(config_, params_.layers[i], u, rope));
      return cache_[i].first(length_ + config_.block_size);
    };
    x = layer_forward(config_, params_.layers[i], x, {rope, mask, keys}, place_.compute);
  }
  return add_rms_norm(x, params_.norm, config_.norm_eps, place_.compute).normed;
}

std::vector<std::int32_t> DFlashSession::propose(std::int32_t anchor_token, std::int64_t num_drafts) {
  const c10::NoGradGuard no_gradients;
  DRAFTSMITH_ASSERT(num_drafts >= 1 && num_drafts < config_.block_size);
  const at::Tensor logits = linear(hidden_of_block(anchor_token).narrow(0, 1, num_drafts), frozen_.head);
  std::vector<std::int32_t> drafts;
  for (const std::int64_t row : best_rows(logits)) drafts.push_back(frozen_.vocab.target_id(row));
  return drafts;
}

}  // namespace draftsmith
