// From a recipe and the target's sizes to the drafter's shape.
#pragma once

#include <cstdint>

#include "draftsmith/config/run_config.h"
#include "draftsmith/draft/drafter_config.h"
#include "draftsmith/model/decoder_shape.h"

namespace draftsmith {

// Every 0 of the configuration becomes the target's value, no taps the default spread. Refuses, by key, what does not
// fit the target.
DrafterConfig resolve_drafter_config(const RunConfig& config, const DecoderShape& target, std::int32_t mask_token_id);

}  // namespace draftsmith
