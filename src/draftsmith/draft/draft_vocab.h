// A smaller draft vocabulary: the ids of the target that a drafter may propose. The head shrinks to their rows, and
// with it the largest product of a small drafter's step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "draftsmith/data/data_set.h"
#include "draftsmith/store/safetensors.h"

namespace draftsmith {

struct DraftVocab {
  std::vector<std::int32_t> ids;  // target ids, ascending; empty = all of the target's

  bool whole() const { return ids.empty(); }
  std::int64_t size(std::int64_t target_size) const {
    return whole() ? target_size : static_cast<std::int64_t>(ids.size());
  }
  std::int32_t target_id(std::int64_t draft_id) const {
    return whole() ? static_cast<std::int32_t>(draft_id) : ids[static_cast<std::size_t>(draft_id)];
  }
  // The row of each target id in the smaller head, -1 for ids without a row; empty when whole.
  std::vector<std::int32_t> rows(std::int64_t target_size) const;
};

// In what follows all ids of `data` must lie below target_size.

// The `size` most frequent supervised tokens of `data`. Among equally frequent ones the lower id is taken; when there
// are fewer, the lowest ids that do not occur are added. A size of 0 or target_size gives the whole vocabulary.
DraftVocab most_frequent_ids(const DataSet& data, std::int64_t size, std::int64_t target_size);

// The share of the supervised tokens of `data` that `vocab` lacks; 0 when no token is supervised.
double share_outside(const DataSet& data, const DraftVocab& vocab, std::int64_t target_size);

// The rows of the target's head [V, H] that a drafter multiplies with: the head itself when whole.
at::Tensor draft_head(const at::Tensor& head, const DraftVocab& vocab);

// The vocabulary as files hold it under kDraftVocabTensor: I64 [V_draft], where the target id of row i is i + value
// (the convention of vLLM).
inline constexpr const char* kDraftVocabTensor = "d2t";
at::Tensor draft_vocab_to_offsets(const DraftVocab& vocab);
// UserError naming the file unless it holds `size` different ids below `target_size` in ascending order.
DraftVocab read_draft_vocab(const SafetensorsFile& file, std::int64_t size, std::int64_t target_size);

}  // namespace draftsmith
