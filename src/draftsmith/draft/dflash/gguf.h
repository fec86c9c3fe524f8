// The GGUF file of a DFlash drafter (llama.cpp's architecture "dflash").
#pragma once

#include "draftsmith/draft/drafter_config.h"
#include "draftsmith/draft/gguf_description.h"

namespace draftsmith {

// UserError where llama.cpp cannot run the drafter: some of its layers let slots see later slots of their block, others
// do not.
GgufDescription describe_dflash_gguf(const DrafterConfig& config);

}  // namespace draftsmith
