#include "draftsmith/draft/draft_vocab.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>

#include "draftsmith/base/check.h"

namespace draftsmith {

std::vector<std::int32_t> DraftVocab::rows(std::int64_t target_size) const {
  if (whole()) return {};
  std::vector<std::int32_t> out(static_cast<std::size_t>(target_size), -1);
  for (std::size_t row = 0; row < ids.size(); ++row)
    out[static_cast<std::size_t>(ids[row])] = static_cast<std::int32_t>(row);
  return out;
}

DraftVocab most_frequent_ids(const DataSet& data, std::int64_t size, std::int64_t target_size) {
  if (size <= 0 || size >= target_size) return {};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(target_size), 0);
  for (std::size_t i = 0; i < data.token_ids.size(); ++i) {
    if (data.loss_mask[i] == 0) continue;
    const std::int64_t id = data.token_ids[i];
    DRAFTSMITH_ASSERT(id >= 0 && id < target_size);
    ++counts[static_cast<std::size_t>(id)];
  }
  DraftVocab vocab;
  vocab.ids.resize(static_cast<std::size_t>(target_size));
  std::iota(vocab.ids.begin(), vocab.ids.end(), 0);
  std::stable_sort(vocab.ids.begin(), vocab.ids.end(),
                   [&](std::int32_t a, std::int32_t b) { return counts[a] > counts[b]; });
  vocab.ids.resize(static_cast<std::size_t>(size));
  std::sort(vocab.ids.begin(), vocab.ids.end());
  return vocab;
}

double share_outside(const DataSet& data, const DraftVocab& vocab, std::int64_t target_size) {
  if (vocab.whole()) return 0;
  const std::vector<std::int32_t> rows = vocab.rows(target_size);
  DRAFTSMITH_ASSERT(data.largest_id() < target_size);
  std::int64_t supervised = 0, outside = 0;
  for (std::size_t i = 0; i < data.token_ids.size(); ++i) {
    if (data.loss_mask[i] == 0) continue;
    ++supervised;
    if (rows[static_cast<std::size_t>(data.token_ids[i])] < 0) ++outside;
  }
  return supervised > 0 ? static_cast<double>(outside) / static_cast<double>(supervised) : 0;
}

at::Tensor draft_head(const at::Tensor& head, const DraftVocab& vocab) {
  return vocab.whole() ? head : head.index_select(0, at::tensor(vocab.ids));
}

at::Tensor draft_vocab_to_offsets(const DraftVocab& vocab) {
  std::vector<std::int64_t> offsets(vocab.ids.begin(), vocab.ids.end());
  for (std::size_t row = 0; row < offsets.size(); ++row) offsets[row] -= static_cast<std::int64_t>(row);
  return at::tensor(offsets);
}

DraftVocab read_draft_vocab(const SafetensorsFile& file, std::int64_t size, std::int64_t target_size) {
  const std::vector<std::int64_t> offsets = file.copy<std::int64_t>(kDraftVocabTensor, DType::kI64);
  const std::string where = text_of(file.path().string(), ": tensor '", kDraftVocabTensor, "'");
  require(static_cast<std::int64_t>(offsets.size()) == size, where, " has ", offsets.size(),
          " entries, but config.json says draft_vocab_size ", size);
  DraftVocab vocab;
  std::int64_t last = -1;
  for (std::int64_t row = 0; row < size; ++row) {
    // The offset alone is checked first, since a sum of two large numbers could overflow.
    const std::int64_t offset = offsets[static_cast<std::size_t>(row)];
    const bool inside = offset >= 0 && offset < target_size && row + offset < target_size;
    require(inside && row + offset > last, where, ": entry ", row,
            " gives no id of the target above the one before it; the file is damaged, export the drafter again");
    last = row + offset;
    vocab.ids.push_back(static_cast<std::int32_t>(last));
  }
  return vocab;
}

}  // namespace draftsmith
