// What no run can be.
#pragma once

#include "draftsmith/config/run_config.h"

namespace draftsmith {

// UsageError naming the key of a value that cannot be (block_size 1, negative rates ...). Reading a configuration calls
// it (config/yaml.h), so nobody behind it asks again; what depends on the target is refused where the target is known
// (draft/recipe.h).
void check_run_config(const RunConfig& config);

}  // namespace draftsmith
