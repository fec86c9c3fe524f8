// The keys of config.json that only a DFlash drafter has.
#pragma once

#include "draftsmith/draft/drafter_config.h"
#include "draftsmith/store/json_keys.h"

namespace draftsmith {

// Reads whether a block is causal inside; UserError for the keys of DFlash2 and for scales that no drafter of ours has.
// `inner` is dflash_config.
void read_dflash_keys(const JsonKeys& keys, const JsonKeys& inner, DrafterConfig& config);

}  // namespace draftsmith
