// Checkpoints: OUTPUT/checkpoints/step-000200, each a folder that is itself a loadable drafter (config.json,
// model.safetensors with the fp32 masters) and also holds optimizer.safetensors (moments) and state.json (where the run
// stands). A folder appears whole or not at all; what is not whole is never taken for a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "draftsmith/base/progress.h"
#include "draftsmith/draft/drafter.h"
#include "draftsmith/train/optimizer.h"

namespace draftsmith {

struct TrainState {
  std::int64_t step = 0;         // optimizer steps done
  std::int64_t total_steps = 0;  // 0 = not fixed yet
  double warmup = 0;             // as the schedule uses it: a share or a number of steps
  std::int64_t epoch = 0;        // of the next step, with its first pack
  std::int64_t pack = 0;
  std::int64_t tokens = 0;  // context tokens trained on
  double seconds = 0;
  std::uint64_t seed = 0;
  std::string config;       // the run's configuration as YAML, as it was given
  std::string data_digest;  // SHA-256 of the training documents
  std::string tokenizer_digest;
  std::string target;  // its name
};

std::filesystem::path checkpoint_folder(const std::filesystem::path& output, std::int64_t step);

struct CheckpointParts {
  const TrainState& state;
  const Drafter& drafter;
  const DraftVocab& vocab;
  const Optimizer& optimizer;
};
// Writes the folder of state.step, then removes all but the `keep` newest (this one always stays). Returns the folder.
std::filesystem::path save_checkpoint(const std::filesystem::path& output, const CheckpointParts& parts,
                                      std::int64_t keep);

// The newest whole checkpoint; folders that are not whole are named in a notice and passed over.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& output, const NoticeFn& notice);

TrainState read_train_state(const std::filesystem::path& checkpoint);
// Fills the moments and the number of steps; names and shapes are checked.
void read_optimizer(const std::filesystem::path& checkpoint, const TrainState& state, Optimizer& optimizer);

}  // namespace draftsmith
