// Loads a target from a GGUF file of any architecture that llama.cpp runs, quantised as it is.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "draftsmith/target/target.h"

namespace draftsmith {

struct LlamaOptions {
  // features() runs on the file's own weights (native) or on a copy in BF16, which is made once in `copy_folder` after
  // a notice (TargetOptions::notice). The copy is several times faster when llama.cpp has no quick kernel for long
  // passes over the file's types. Everything else always runs on the file itself.
  FeatureWeights feature_weights = FeatureWeights::kNative;
  std::filesystem::path copy_folder = {};
};

// Checks the file before llama.cpp sees it, then loads it. Throws a UserError that names the file.
std::unique_ptr<Target> load_gguf_target(const std::filesystem::path& file, const TargetOptions& options,
                                         const LlamaOptions& llama = {});

// Reads the head alone. Throws a UserError that names the file.
TargetHead read_gguf_head(const std::filesystem::path& file);

}  // namespace draftsmith
