// Refuses configurations that no run can have.
#pragma once

#include "draftsmith/config/run_config.h"

namespace draftsmith {

// Throws a UsageError that names the key of an impossible value (block_size 1, negative rates ...). Reading a
// configuration calls it (config/yaml.h), so nothing after that checks again. What depends on the target is checked
// when the target is known (draft/recipe.h).
void check_run_config(const RunConfig& config);

}  // namespace draftsmith
