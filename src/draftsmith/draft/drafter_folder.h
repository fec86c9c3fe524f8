// Reads a drafter from a folder.
#pragma once

#include <filesystem>
#include <memory>

#include "draftsmith/draft/drafter.h"

namespace draftsmith {

// Reads config.json and model.safetensors (one file or shards). Every name and shape is checked; tensors become fp32.
struct LoadedDrafter {
  std::unique_ptr<Drafter> drafter;
  DraftVocab vocab = {};  // whole unless the configuration has a draft_vocab_size
  const DrafterConfig& config() const { return drafter->config(); }
};
LoadedDrafter read_drafter_folder(const std::filesystem::path& folder, const Place& place = {});

}  // namespace draftsmith
