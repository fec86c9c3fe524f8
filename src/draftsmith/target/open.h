// Opens a target. This is the one place that knows which engine reads which path.
#pragma once

#include <filesystem>
#include <memory>

#include "draftsmith/target/llama/load.h"
#include "draftsmith/target/target.h"

namespace draftsmith {

// Throws a UserError unless an engine reads such a path. It does not open the file.
void check_target_path(const std::filesystem::path& file_or_folder);

// Throws a UserError that names the path. `llama` is for the llama.cpp engine only.
std::unique_ptr<Target> open_target(const std::filesystem::path& file_or_folder, const TargetOptions& options,
                                    const LlamaOptions& llama = {});

// Reads the head alone, without loading the model. Throws a UserError that names the path.
TargetHead read_head(const std::filesystem::path& file_or_folder);

}  // namespace draftsmith
