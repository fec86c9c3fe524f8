// A DFlash drafter while it decodes: keys and values of the context are projected once per committed position and kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "draftsmith/draft/dflash/params.h"
#include "draftsmith/draft/drafter.h"
#include "draftsmith/model/kv_cache.h"

namespace draftsmith {

class DFlashSession final : public DraftSession {
 public:
  // All arguments must outlive the session; matrices and head are in the place's compute type.
  DFlashSession(const DrafterConfig& config, const DFlashParams& params, const Place& place, const Frozen& frozen,
                std::int64_t capacity);
  std::int64_t length() const override { return length_; }
  void append(const at::Tensor& taps) override;
  std::vector<std::int32_t> propose(std::int32_t anchor_token, std::int64_t num_drafts) override;

 private:
  std::vector<std::int64_t> next_positions(std::int64_t count) const;
  at::Tensor block_embeddings(std::int32_t anchor_token) const;  // [B, H]
  at::Tensor hidden_of_block(std::int32_t anchor_token);         // [B, H] after the last norm

  const DrafterConfig& config_;
  const DFlashParams& params_;
  const Place place_;
  const Frozen& frozen_;
  const std::int64_t capacity_;
  std::int64_t length_ = 0;
  std::vector<KvCache> cache_;  // one a layer, with room for a block behind the context
};

}  // namespace draftsmith
