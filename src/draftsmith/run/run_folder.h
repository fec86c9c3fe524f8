// The folder that a run writes: run.yaml (the configuration that repeats the run), metrics.jsonl, tensorboard/,
// checkpoints/, plot.svg. Only the first rank has one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "draftsmith/config/run_config.h"
#include "draftsmith/run/checkpoint.h"
#include "draftsmith/run/metrics.h"
#include "draftsmith/store/files.h"

namespace draftsmith {

class RunFolder {
 public:
  // Creates the folder and holds it against other processes; UserError when it cannot be written or is held.
  explicit RunFolder(const std::filesystem::path& output);

  // Opens the metrics; lines of steps after `done_steps` are cut off.
  void open_metrics(std::int64_t done_steps);
  void add(const TrainLine& line) { metrics_->add(line); }
  void add(const EvalLine& line) { metrics_->add(line); }

  void write_run_yaml(const RunConfig& resolved) const;
  void save(const CheckpointParts& parts, std::int64_t keep) const { save_checkpoint(output_, parts, keep); }
  void plot(const std::string& title) const;

 private:
  const std::filesystem::path output_;
  std::optional<FolderLock> lock_;
  std::optional<MetricsLog> metrics_;
};

}  // namespace draftsmith
