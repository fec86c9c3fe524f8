// Reads and prints a RunConfig.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "draftsmith/config/run_config.h"

namespace draftsmith {

// Reads `file` (YAML), then applies `assignments` ("section.key=value", "key=value" for the top level) in order. An
// unknown section or key is a UsageError that names the nearest known one; a value of the wrong type names file, line,
// key and what it should be.
RunConfig read_run_config(const std::filesystem::path& file, std::span<const std::string> assignments);
RunConfig run_config_from_yaml(const std::string& text, const std::string& name,
                               std::span<const std::string> assignments);

// Prints every value as YAML that reads back to the same RunConfig.
std::string run_config_to_yaml(const RunConfig& config);
// Prints the defaults in the same way, with each field's help as a comment.
std::string run_config_help();

}  // namespace draftsmith
