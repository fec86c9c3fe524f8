// Derives the drafter's shape from a recipe and the target's sizes.
#pragma once

#include <cstdint>

#include "draftsmith/config/run_config.h"
#include "draftsmith/draft/drafter_config.h"
#include "draftsmith/model/decoder_shape.h"

namespace draftsmith {

// Every 0 of the configuration becomes the target's value, and an empty list of taps the default spread. A value that
// does not fit the target is refused by its key.
DrafterConfig resolve_drafter_config(const RunConfig& config, const DecoderShape& target, std::int32_t mask_token_id);

}  // namespace draftsmith
