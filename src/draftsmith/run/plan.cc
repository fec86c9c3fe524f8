#include "draftsmith/run/plan.h"

#include <fmt/format.h>

#include "draftsmith/base/memory.h"
#include "draftsmith/base/words.h"
#include "draftsmith/draft/families.h"
#include "draftsmith/draft/loss.h"
#include "draftsmith/train/feature_cache.h"
#include "draftsmith/train/pack_schedule.h"
#include "draftsmith/train/trainer.h"

namespace draftsmith {
namespace {

void count_data(TrainPlan& plan, const RunConfig& config, const DataSet& data) {
  PackSchedule schedule(data, config);
  const PackPlan& epoch = schedule.plan(0);
  plan.documents = data.num_documents();
  plan.documents_cut = epoch.num_cut;
  plan.documents_left_out = epoch.num_without_anchor;
  plan.packs = static_cast<std::int64_t>(epoch.packs.size());
  plan.steps_an_epoch = (plan.packs + config.train.accumulation - 1) / config.train.accumulation;
  for (std::int64_t i = 0; i < plan.packs; ++i) {
    const Pack pack = schedule.make(epoch.packs[i], 0);
    plan.tokens += pack.num_tokens();
    plan.supervised_tokens += std::count(pack.loss_mask.begin(), pack.loss_mask.end(), 1);
    Rng rng(config.seed, RngPurpose::kAnchors, {static_cast<std::uint64_t>(i)});  // only their number counts here
    const auto anchors = static_cast<std::int64_t>(sample_anchors(pack, anchor_options(config), rng).size());
    plan.anchors += anchors;
    plan.longest_pack = std::max(plan.longest_pack, pack.length);
    plan.most_anchors = std::max(plan.most_anchors, anchors);
  }
  if (config.train.max_minutes <= 0) plan.total_steps = schedule.num_steps();
}

void estimate_memory(TrainPlan& plan, const RunConfig& config, const TargetInfo& target, const Drafter& drafter) {
  const DrafterConfig& d = plan.drafter;
  const auto element = static_cast<std::int64_t>(elementSize(place_of(config.train.compute).compute));
  plan.bytes_parameters = plan.parameters * 12;
  const std::int64_t tables = target.tied_head ? target.vocab_size : 2 * target.vocab_size;
  plan.bytes_target_tables = (tables + d.draft_vocab_size) * target.hidden_size * element;
  const bool soft = config.train.soft_labels > 0;
  const std::int64_t token_bytes = feature_width(d.num_taps(), soft, d.hidden_size).bytes();
  plan.bytes_features = plan.tokens * token_bytes;
  const std::int64_t cache = config.train.feature_cache_mb << 20;
  plan.bytes_features_kept =
      std::min(plan.bytes_features, cache) + std::min(plan.eval_tokens * token_bytes, held_out_cache_mb(config) << 20);
  plan.bytes_step = drafter.step_bytes({.context = plan.longest_pack,
                                        .anchors = plan.most_anchors,
                                        .recompute = config.train.recompute,
                                        .soft_labels = soft,
                                        .gradients_held = config.train.accumulation > 1,
                                        .logits_bytes = LossOptions().logits_bytes});
}

// Measured overhead that the plan does not count: the kernels that oneDNN compiles for each shape of a pack, and the
// fragmentation of the heap.
constexpr std::int64_t kSmallThings = 80'000'000;

void read_longest_document(Target& target, const DataSet& data, const DrafterConfig& drafter, const RunConfig& config) {
  std::int64_t longest = 0;
  for (std::int64_t d = 1; d < data.num_documents(); ++d)
    if (data.length(d) > data.length(longest)) longest = d;
  const std::int64_t kept = pack_options(config, 0).kept(data.length(longest));
  target.features(data.tokens_of(longest).first(kept), drafter.target_layer_ids, config.train.soft_labels > 0);
}

}  // namespace

TrainPlan plan_training(const RunConfig& config, const TargetInfo& target, const DataFolder& data,
                        const DrafterConfig& drafter) {
  TrainPlan plan;
  plan.drafter = drafter;
  const auto shapes = drafter_shapes(drafter, place_of(config.train.compute));
  plan.parameters = num_parameters(*shapes);
  const DataSet held_out = held_out_documents(data, config);
  const PackOptions packs = pack_options(config, 0);
  plan.eval_documents = held_out.num_documents();
  for (std::int64_t d = 0; d < plan.eval_documents; ++d) plan.eval_tokens += packs.kept(held_out.length(d));
  count_data(plan, config, data.train);
  estimate_memory(plan, config, target, *shapes);
  return plan;
}

std::int64_t process_bytes(const TrainPlan& plan, const RunConfig& config, Target& target, const DataSet& train) {
  read_longest_document(target, train, plan.drafter, config);
  const std::int64_t copy = config.model.feature_weights == FeatureWeights::kBFloat16 ? target.bf16_copy_bytes() : 0;
  return resident_bytes() + plan.bytes() + copy + kSmallThings;
}

std::string to_text(const TrainPlan& plan, const RunConfig& config) {
  const DrafterConfig& d = plan.drafter;
  std::string out = fmt::format(
      "drafter   {:.1f}M trainable parameters: {} layers, block {}, hidden {}, MLP {}, heads {}/{} of {}, mask token "
      "{}, "
      "taps {} of {} layers",
      static_cast<double>(plan.parameters) / 1e6, d.num_layers, d.block_size, d.hidden_size, d.intermediate_size,
      d.num_heads, d.num_kv_heads, d.head_dim, d.mask_token_id, fmt::join(d.target_layer_ids, " "),
      d.num_target_layers);
  if (d.draft_vocab_size > 0) out += fmt::format(", drafts from {} of {} ids", d.draft_vocab_size, d.vocab_size);
  out += fmt::format(
      "\ndata      {} documents ({} cut, {} left out: no two supervised tokens in a row), {} tokens, {} supervised; {} "
      "held-out documents\n",
      plan.documents, plan.documents_cut, plan.documents_left_out, plan.tokens, plan.supervised_tokens,
      plan.eval_documents);
  out += fmt::format("epoch     {} packs of up to {} tokens, {} anchors, {} steps of {} {}\n", plan.packs,
                     config.train.row_length, plan.anchors, plan.steps_an_epoch, config.train.accumulation,
                     config.train.accumulation == 1 ? "pack" : "packs");
  out += plan.total_steps > 0
             ? fmt::format("steps     {}\n", plan.total_steps)
             : fmt::format("steps     fitted to {:g} minutes after the first 20\n", config.train.max_minutes);
  const std::int64_t beyond = plan.bytes_features - (config.train.feature_cache_mb << 20);
  const std::int64_t on_disk = std::clamp<std::int64_t>(beyond, 0, config.train.feature_disk_mb << 20);
  return out + fmt::format(
                   "memory    {} beside the target: parameters and moments {}, embedding and head {}, features {} (and "
                   "{} on disk), a step {}\n",
                   bytes_text(plan.bytes()), bytes_text(plan.bytes_parameters), bytes_text(plan.bytes_target_tables),
                   bytes_text(plan.bytes_features_kept), bytes_text(on_disk), bytes_text(plan.bytes_step));
}

}  // namespace draftsmith
