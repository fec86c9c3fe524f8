#include "draftsmith/data/data_set.h"

#include <algorithm>

#include "draftsmith/base/check.h"

namespace draftsmith {

std::int32_t DataSet::largest_id() const {
  return token_ids.empty() ? -1 : *std::max_element(token_ids.begin(), token_ids.end());
}

std::int64_t DataSet::prompt_length(std::int64_t d) const {
  const std::span<const std::uint8_t> mask = loss_mask_of(d);
  return std::find(mask.begin(), mask.end(), std::uint8_t{1}) - mask.begin();
}

std::string DataSet::kind_of(std::int64_t d) const { return kind.empty() ? std::string() : kind_names[kind[d]]; }

void DataSet::add_document(std::span<const std::int32_t> tokens, std::span<const std::uint8_t> mask) {
  DRAFTSMITH_ASSERT(tokens.size() == mask.size());
  token_ids.insert(token_ids.end(), tokens.begin(), tokens.end());
  loss_mask.insert(loss_mask.end(), mask.begin(), mask.end());
  document_offsets.push_back(static_cast<std::int64_t>(token_ids.size()));
}

}  // namespace draftsmith
