#include "draftsmith/draft/target_fit.h"

#include "draftsmith/base/check.h"
#include "draftsmith/model/tap_rules.h"

namespace draftsmith {

void check_fits_target(const DrafterConfig& drafter, const TargetSizes& target) {
  const auto same = [&](const char* what, std::int64_t ours, const std::optional<std::int64_t>& theirs) {
    require(!theirs || ours == *theirs, "the drafter was trained for a target with ", what, " ", ours, ", but ",
            target.name, " has ", theirs.value_or(0), "; give the target that it was trained for");
  };
  same("width", drafter.hidden_size, target.hidden_size);
  same("number of layers", drafter.num_target_layers, target.num_layers);
  same("vocabulary size", drafter.vocab_size, target.vocab_size);
  if (target.num_layers) check_taps(drafter.target_layer_ids, *target.num_layers);
  require(!target.num_tokens || (drafter.mask_token_id >= 0 && drafter.mask_token_id < *target.num_tokens),
          "the drafter's mask token ", drafter.mask_token_id, " is not among the ", target.num_tokens.value_or(0),
          " ids of ", target.name, "; give the target that it was trained for");
}

}  // namespace draftsmith
