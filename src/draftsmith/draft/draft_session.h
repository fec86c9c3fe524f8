// The drafter while decoding: keys and values of the context are projected once per committed position and kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "draftsmith/draft/drafter.h"

namespace draftsmith {

class DraftSession {
 public:
  // embedding [V, H] is the target's, head [V_draft, H] has the rows of `vocab` (draft_head); everything stays alive as
  // long as the session.
  DraftSession(const DrafterConfig& config, const DrafterParams& params, at::Tensor embedding, at::Tensor head,
               std::int64_t capacity, Compute compute, const DraftVocab& vocab = {});
  ~DraftSession();
  std::int64_t length() const;  // committed positions whose features were added
  // Features [n, K*H] of the next n committed positions.
  void append(const at::Tensor& features);
  // Drafts for the block whose anchor is `anchor_token` at position length(): num_drafts ids, 1 <= num_drafts < B.
  std::vector<std::int32_t> propose(std::int32_t anchor_token, std::int64_t num_drafts);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace draftsmith
