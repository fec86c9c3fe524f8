#include "draftsmith/train/rows.h"

#include <algorithm>
#include <limits>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

// Rows end in padding so that few lengths occur: a product of a shape not seen before costs milliseconds (oneDNN
// compiles it) and stays in memory.
constexpr std::int64_t kRowMultiple = 64;

}  // namespace

DataSet held_out_documents(const DataFolder& data, const RunConfig& config) {
  DataSet out;
  const std::int64_t all = data.eval.num_documents(), kept = std::min(config.eval.prompts, all);
  for (std::int64_t i = 0; i < kept; ++i) {
    const std::int64_t d = i * all / kept;
    out.add_document(data.eval.tokens_of(d), data.eval.loss_mask_of(d));
  }
  return out;
}

std::int64_t held_out_cache_mb(const RunConfig& config) { return config.train.feature_cache_mb / 8; }

RowSchedule::RowSchedule(const DataSet& data, const RunConfig& config) : data_(data), config_(config) {
  DRAFTSMITH_ASSERT(config.train.epochs >= 1);
  require(!plan(0).rows.empty(), "none of the ", data.num_documents(), " training documents in ", config.data.path,
          " has two supervised tokens in a row within ", std::min(config.data.max_length, config.train.row_length),
          " tokens: there is nothing to train on; raise data.max_length and train.row_length or prepare other data");
  for (const auto& row : plan(0).rows) {
    ++epoch_size_.rows;
    for (const std::int64_t document : row) epoch_size_.tokens += kept_length(document);
  }
}

PackOptions RowSchedule::pack_options(std::int64_t epoch) const {
  return {.row_length = config_.train.row_length,
          .max_length = config_.data.max_length,
          .seed = config_.seed,
          .epoch = epoch,
          .multiple = kRowMultiple};
}

AnchorOptions RowSchedule::anchor_options() const {
  return {.per_document = config_.train.anchors_per_document, .per_pack = config_.train.anchors_per_pack};
}

std::int64_t RowSchedule::kept_length(std::int64_t document) const {
  return std::min({data_.length(document), config_.data.max_length, config_.train.row_length});
}

const PackPlan& RowSchedule::plan(std::int64_t epoch) {
  const auto found = plans_.find(epoch);
  if (found != plans_.end()) return found->second;
  constexpr std::size_t kPlansKept = 3;
  if (plans_.size() >= kPlansKept) plans_.erase(plans_.begin());
  return plans_.emplace(epoch, plan_packs(data_, pack_options(epoch))).first->second;
}

bool RowSchedule::reach(std::int64_t step) {
  while (starts_.back() <= step) {
    const auto epoch = static_cast<std::int64_t>(starts_.size()) - 1;
    if (epoch >= config_.train.epochs) return false;
    const auto num_rows = static_cast<std::int64_t>(plan(epoch).rows.size());
    const std::int64_t accumulation = config_.train.accumulation;
    starts_.push_back(starts_.back() + num_rows / accumulation + (num_rows % accumulation != 0));
  }
  return true;
}

bool RowSchedule::has(std::int64_t step) {
  if (config_.train.max_steps > 0 && step >= config_.train.max_steps) return false;
  return reach(step);
}

std::int64_t RowSchedule::num_steps() {
  if (config_.train.max_steps > 0 && reach(config_.train.max_steps - 1)) return config_.train.max_steps;
  reach(std::numeric_limits<std::int64_t>::max());
  return starts_.back();
}

StepRows RowSchedule::at(std::int64_t step) {
  DRAFTSMITH_ASSERT(reach(step));
  const auto next = std::upper_bound(starts_.begin(), starts_.end(), step);
  StepRows out;
  out.epoch = next - starts_.begin() - 1;
  const PackPlan& epoch_plan = plan(out.epoch);
  out.first_row = (step - starts_[out.epoch]) * config_.train.accumulation;
  const auto num_rows = static_cast<std::int64_t>(epoch_plan.rows.size());
  const std::int64_t end = std::min(num_rows, out.first_row + config_.train.accumulation);
  out.rows.assign(epoch_plan.rows.begin() + out.first_row, epoch_plan.rows.begin() + end);
  return out;
}

}  // namespace draftsmith
