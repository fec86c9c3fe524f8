// Opens a target, whatever its path is: the one place that knows which engine reads what.
#pragma once

#include <filesystem>
#include <memory>

#include "draftsmith/target/llama/load.h"
#include "draftsmith/target/target.h"

namespace draftsmith {

// UserError, in one sentence, unless an engine reads such a path. Does not open the file.
void check_target_path(const std::filesystem::path& file_or_folder);

// `llama` is for the llama.cpp engine only.
std::unique_ptr<Target> open_target(const std::filesystem::path& file_or_folder, const TargetOptions& options,
                                    const LlamaOptions& llama = {});

// The head alone, without loading the model.
TargetHead read_head(const std::filesystem::path& file_or_folder);

}  // namespace draftsmith
