// Writes a drafter as a Hugging Face folder that z-lab's code, SGLang and vLLM load: config.json and model.safetensors
// with z-lab's keys and names. It has no embedding and no prefix, and a head only with a smaller draft vocabulary.
#pragma once

#include <filesystem>

#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/export/stored_type.h"

namespace draftsmith {

// The folder appears whole or not at all. An existing folder is replaced only when it is empty or an earlier export
// (it holds nothing but the config.json of a drafter and safetensors); the error names what stands in the way.
// `head` [V_draft, H], the target's rows of the drafter's vocabulary, is stored as lm_head.weight beside d2t; it may be
// left out when the vocabulary is whole.
void export_hf(const LoadedDrafter& drafter, const std::filesystem::path& folder, StoredType type,
               const at::Tensor& head = {});

}  // namespace draftsmith
