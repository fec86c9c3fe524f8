// The weights a run begins with: draft.init = random, target (from the target's own last layers), or the path of a
// drafter folder.
#pragma once

#include <memory>

#include "draftsmith/base/progress.h"
#include "draftsmith/config/run_config.h"
#include "draftsmith/draft/drafter.h"
#include "draftsmith/target/target.h"

namespace draftsmith {

// fp32 masters of the shapes of `drafter`. A drafter of another shape is refused by the key that differs.
std::unique_ptr<Drafter> starting_drafter(const RunConfig& config, const DrafterConfig& drafter, Target& target,
                                          const NoticeFn& notice);

}  // namespace draftsmith
