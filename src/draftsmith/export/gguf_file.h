// Writes a drafter as a GGUF file of llama.cpp's architecture "dflash" (`--spec-type draft-dflash`). At run time
// llama.cpp takes embedding and head from the target; a drafter with a smaller vocabulary brings its own head. The
// tokenizer is copied from the target's file, so that llama.cpp accepts the two as a pair.
#pragma once

#include <filesystem>

#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/export/stored_type.h"

namespace draftsmith {

// Matrices are stored in `type`, norms in F32. Refused are a target whose width, depth or vocabulary is not the
// drafter's, a drafter in which some layers are causal inside the block and some are not (llama.cpp has one flag for
// all layers), and an existing `file` that is no drafter GGUF. `head` [V_draft, H], the target's rows of the drafter's
// vocabulary, is stored as output.weight beside d2t; it may be left out when the vocabulary is whole.
void export_gguf(const LoadedDrafter& drafter, const std::filesystem::path& target_gguf,
                 const std::filesystem::path& file, StoredType type, const at::Tensor& head = {});

}  // namespace draftsmith
