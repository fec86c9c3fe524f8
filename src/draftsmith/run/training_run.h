// A whole training run, as the command `train` calls it: folder, start or resume, number of steps, loop, measurements,
// checkpoints. run_folder.h tells what it leaves in config.output.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "draftsmith/base/progress.h"
#include "draftsmith/config/run_config.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/draft/drafter_config.h"
#include "draftsmith/ranks/ranks.h"
#include "draftsmith/target/target.h"

namespace draftsmith {

struct TrainHooks {
  ProgressFn progress;  // called for every line of metrics: steps done, all steps, "loss 4.31  acc 0.182 ..."
  NoticeFn notice;
  std::function<bool()> stop_requested;  // asked after every step; true: save a checkpoint and return
};

struct TrainSummary {
  std::int64_t steps = 0;
  std::int64_t total_steps = 0;  // 0 = stopped before it was fixed
  double minutes = 0;            // of training, all sessions of the run
  // The last line of metrics.
  double loss = 0, accuracy = 0, accepted_length = 0;
  std::vector<double> accuracy_per_slot;
  // Measured on held-out documents at the end; 0 when there are none or the run was stopped.
  double eval_loss = 0, eval_accuracy = 0, eval_accepted_length = 0;
  std::filesystem::path checkpoint;  // the newest, a loadable drafter
  bool stopped_early = false;
};

struct TrainInputs {
  const RunConfig& config;
  Target& target;
  const DataFolder& data;
  const DrafterConfig& drafter;
  Ranks& ranks;
  // Go on from the newest checkpoint of config.output (from the start, with a notice, when there is none). Without it
  // an output that holds checkpoints is refused.
  bool resume = false;
};
// Every rank calls it with the same inputs and gets the same summary; only the first writes and calls `progress` and
// `notice`. A stop that any rank asks for stops all after the same step.
TrainSummary train(const TrainInputs& inputs, const TrainHooks& hooks);

}  // namespace draftsmith
