// Finds the drafter and the target that a command means.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "draftsmith/config/run_config.h"

namespace draftsmith {

// A drafter folder: `path` itself when it has a config.json, else the newest checkpoint of the run folder `path`.
std::filesystem::path find_drafter_folder(const std::filesystem::path& path);

// The configuration of the run that `drafter` (a checkpoint or run folder) belongs to: run.yaml beside or above it.
std::optional<RunConfig> find_run_config(const std::filesystem::path& drafter);

// `given`, else the target that the drafter's run was trained for; UsageError when neither is known.
std::filesystem::path target_path(const std::string& given, const std::filesystem::path& drafter);

}  // namespace draftsmith
