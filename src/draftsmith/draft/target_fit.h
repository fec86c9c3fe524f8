// Checks that a drafter was trained for a target.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "draftsmith/draft/drafter_config.h"

namespace draftsmith {

// The sizes that are known of a target; absent ones are not compared.
struct TargetSizes {
  std::string name;  // for messages
  std::optional<std::int64_t> hidden_size, num_layers, vocab_size;
  std::optional<std::int64_t> num_tokens;  // ids that there are
};
// UserError naming the first size that differs, or a mask token that the target does not have.
void check_fits_target(const DrafterConfig& drafter, const TargetSizes& target);

}  // namespace draftsmith
