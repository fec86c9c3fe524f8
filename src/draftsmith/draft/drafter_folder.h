// A drafter as a folder holds it.
#pragma once

#include <filesystem>
#include <memory>

#include "draftsmith/draft/drafter.h"

namespace draftsmith {

// A drafter folder: config.json + model.safetensors (one file or shards). Checks every name and shape; tensors come as
// fp32.
struct LoadedDrafter {
  std::unique_ptr<Drafter> drafter;
  DraftVocab vocab = {};  // whole unless the configuration has a draft_vocab_size
  const DrafterConfig& config() const { return drafter->config(); }
};
LoadedDrafter read_drafter_folder(const std::filesystem::path& folder, const Place& place = {});

}  // namespace draftsmith
