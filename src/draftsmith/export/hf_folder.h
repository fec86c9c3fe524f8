// A drafter as a Hugging Face folder: config.json and model.safetensors with z-lab's keys and names, as z-lab's code,
// SGLang and vLLM load it. No embedding, no head, no prefix.
#pragma once

#include <filesystem>

#include "draftsmith/draft/drafter.h"
#include "draftsmith/export/stored_type.h"

namespace draftsmith {

// The folder appears whole or not at all. An existing one is replaced only when it is empty or an earlier export
// (nothing in it but config.json of a DFlash drafter and safetensors); anything else is refused, naming what stands in
// the way.
void export_hf(const LoadedDrafter& drafter, const std::filesystem::path& folder, StoredType type);

}  // namespace draftsmith
