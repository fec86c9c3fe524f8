// Plans a run before it starts: the drafter's full shape from the configuration and the target, and the figures that
// `train --dry-run` prints.
#pragma once

#include <cstdint>
#include <string>

#include "draftsmith/config/run_config.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/draft/drafter.h"
#include "draftsmith/target/target.h"

namespace draftsmith {

struct TrainPlan {
  DrafterConfig drafter;
  std::int64_t parameters = 0;
  // The training data as the first epoch sees it.
  std::int64_t documents = 0, documents_cut = 0, documents_left_out = 0;
  std::int64_t tokens = 0, supervised_tokens = 0;  // of the documents kept, after cutting
  std::int64_t packs = 0, steps_an_epoch = 0, anchors = 0;
  std::int64_t longest_pack = 0, most_anchors = 0;  // of one pack, in tokens and anchors
  std::int64_t eval_documents = 0, eval_tokens = 0;
  std::int64_t total_steps = 0;  // 0 = fitted to train.max_minutes while running
  // Bytes of memory beside the target.
  std::int64_t bytes_parameters = 0;     // fp32 master and two moments: 12 a parameter
  std::int64_t bytes_target_tables = 0;  // embedding, the head where it is not tied, rows of a smaller vocabulary
  std::int64_t bytes_features = 0;       // of every training document; what is kept is bounded by feature_cache_mb
  std::int64_t bytes_features_kept = 0;  // of them in memory
  std::int64_t bytes_step = 0;           // of one step at its peak: what backward needs, and gradients
  std::int64_t bytes() const { return bytes_parameters + bytes_target_tables + bytes_features_kept + bytes_step; }
};
TrainPlan plan_training(const RunConfig& config, const TargetInfo& target, const DataFolder& data,
                        const DrafterConfig& drafter);
// Returns the bytes of the whole process while it trains by this plan: the program, the target and what the plan
// counts. It lets the target read the longest document of the training data, because the target keeps that memory.
std::int64_t process_bytes(const TrainPlan& plan, const RunConfig& config, Target& target, const DataSet& train);
// Several lines for people, ending with a newline.
std::string to_text(const TrainPlan& plan, const RunConfig& config);

}  // namespace draftsmith
