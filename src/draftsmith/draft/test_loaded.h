// For tests: drafters of any family as a folder would give them.
#pragma once

#include <functional>

#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/draft/families.h"

namespace draftsmith {

// Random parameters of the usual start, in fp32.
inline LoadedDrafter loaded_drafter(const DrafterConfig& config, std::uint64_t seed) {
  LoadedDrafter loaded;
  loaded.drafter = empty_drafter(config, {.compute = at::kFloat});
  Rng rng(seed, RngPurpose::kTest);
  for (const Param& param : loaded.drafter->params()) fill_first_value(param.tensor, param.role, rng);
  return loaded;
}

// The same parameters under another configuration.
inline void reconfigure(LoadedDrafter& loaded, const std::function<void(DrafterConfig&)>& change) {
  DrafterConfig config = loaded.config();
  change(config);
  loaded.drafter = with_config(*loaded.drafter, config);
}

}  // namespace draftsmith
