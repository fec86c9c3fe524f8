#include "draftsmith/train/pack_schedule.h"

#include <algorithm>
#include <limits>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

// Packs end in padding so that few lengths occur: a product of a shape not seen before costs milliseconds (oneDNN
// compiles it) and stays in memory.
constexpr std::int64_t kPackMultiple = 64;

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

PackOptions pack_options(const RunConfig& config, std::int64_t epoch) {
  return {.row_length = config.train.row_length,
          .max_length = config.data.max_length,
          .seed = config.seed,
          .epoch = epoch,
          .multiple = kPackMultiple};
}

AnchorOptions anchor_options(const RunConfig& config) {
  return {.per_document = config.train.anchors_per_document, .per_pack = config.train.anchors_per_pack};
}

PackSchedule::PackSchedule(const DataSet& data, const RunConfig& config) : data_(data), config_(config) {
  DRAFTSMITH_ASSERT(config.train.epochs >= 1);
  require(!plan(0).packs.empty(), "none of the ", data.num_documents(), " training documents in ", config.data.path,
          " has two supervised tokens in a row within ", std::min(config.data.max_length, config.train.row_length),
          " tokens: there is nothing to train on; raise data.max_length and train.row_length or prepare other data");
  for (const auto& documents : plan(0).packs) {
    ++epoch_size_.packs;
    epoch_size_.tokens += num_tokens(documents);
  }
}

Pack PackSchedule::make(const std::vector<std::int64_t>& documents, std::int64_t epoch) const {
  return make_pack(data_, documents, pack_options(config_, epoch));
}

std::int64_t PackSchedule::num_tokens(const std::vector<std::int64_t>& documents) const {
  std::int64_t tokens = 0;
  for (const std::int64_t document : documents) tokens += kept_length(document);
  return tokens;
}

std::int64_t PackSchedule::kept_length(std::int64_t document) const {
  return pack_options(config_, 0).kept(data_.length(document));
}

const PackPlan& PackSchedule::plan(std::int64_t epoch) {
  const auto found = plans_.find(epoch);
  if (found != plans_.end()) return found->second;
  constexpr std::size_t kPlansKept = 3;
  if (plans_.size() >= kPlansKept) plans_.erase(plans_.begin());
  return plans_.emplace(epoch, plan_packs(data_, pack_options(config_, epoch))).first->second;
}

bool PackSchedule::count_to(std::int64_t step) {
  while (starts_.back() <= step) {
    const auto epoch = static_cast<std::int64_t>(starts_.size()) - 1;
    if (epoch >= config_.train.epochs) return false;
    const auto num_packs = static_cast<std::int64_t>(plan(epoch).packs.size());
    const std::int64_t accumulation = config_.train.accumulation;
    starts_.push_back(starts_.back() + num_packs / accumulation + (num_packs % accumulation != 0));
  }
  return true;
}

bool PackSchedule::has(std::int64_t step) {
  if (config_.train.max_steps > 0 && step >= config_.train.max_steps) return false;
  return count_to(step);
}

std::int64_t PackSchedule::num_steps() {
  if (config_.train.max_steps > 0 && count_to(config_.train.max_steps - 1)) return config_.train.max_steps;
  count_to(std::numeric_limits<std::int64_t>::max());
  return starts_.back();
}

StepPacks PackSchedule::at(std::int64_t step) {
  const bool counted = count_to(step);
  DRAFTSMITH_ASSERT(counted);
  const auto next = std::upper_bound(starts_.begin(), starts_.end(), step);
  StepPacks out;
  out.epoch = next - starts_.begin() - 1;
  const PackPlan& epoch_plan = plan(out.epoch);
  out.first_pack = (step - starts_[out.epoch]) * config_.train.accumulation;
  const auto num_packs = static_cast<std::int64_t>(epoch_plan.packs.size());
  const std::int64_t end = std::min(num_packs, out.first_pack + config_.train.accumulation);
  out.packs.assign(epoch_plan.packs.begin() + out.first_pack, epoch_plan.packs.begin() + end);
  return out;
}

}  // namespace draftsmith
