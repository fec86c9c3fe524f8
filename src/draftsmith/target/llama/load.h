// The llama.cpp engine's door: a target from a GGUF file, any architecture that llama.cpp runs, quantised as it is.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "draftsmith/target/target.h"

namespace draftsmith {

struct LlamaOptions {
  // Weights that features() runs on: native, the file as it is; or bf16, a copy of it in BF16 that is made once in
  // `copy_folder` (TargetOptions::notice is told before): several times faster where llama.cpp has no quick kernel for
  // long passes over the file's own types. Everything else always runs on the file itself.
  FeatureWeights feature_weights = FeatureWeights::kNative;
  std::filesystem::path copy_folder = {};
};

// Checks the file before llama.cpp sees it, then loads it.
std::unique_ptr<Target> load_gguf_target(const std::filesystem::path& file, const TargetOptions& options,
                                         const LlamaOptions& llama = {});

TargetHead read_gguf_head(const std::filesystem::path& file);

}  // namespace draftsmith
