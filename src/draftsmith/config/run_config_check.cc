// Each rule is written once, and its message names the key, the value and what is allowed.
#include "draftsmith/config/run_config_check.h"

#include <cmath>
#include <limits>
#include <set>

#include "draftsmith/base/check.h"
#include "draftsmith/base/strings.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 40;        // of anything that is counted
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;  // of a row or document
constexpr std::int64_t kMostId = std::numeric_limits<std::int32_t>::max();

template <class Value>
[[noreturn]] void refuse(const char* key, const Value& value, const std::string& rule) {
  throw UsageError(text_of(key, " is ", value, ", but it must be ", rule));
}

void within(const char* key, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) refuse(key, value, text_of("between ", low, " and ", high));
}

void not_negative(const char* key, double value) {
  if (!(value >= 0)) refuse(key, value, "0 or more");
}

void positive(const char* key, double value) {
  if (!(value > 0)) refuse(key, value, "above 0");
}

void share(const char* key, double value) {
  if (!(value >= 0 && value < 1)) refuse(key, value, "at least 0 and below 1");
}

// Checks that each layer is listed once and lies in 0 .. end-1.
void layer_list(const char* key, const std::vector<std::int64_t>& layers, std::int64_t end) {
  std::set<std::int64_t> seen;
  for (std::int64_t layer : layers) {
    if (layer < 0 || layer >= end)
      throw UsageError(text_of(key, " holds ", layer, "; layers are numbered 0 to ", end - 1));
    if (!seen.insert(layer).second) throw UsageError(text_of(key, " holds ", layer, " twice"));
  }
}

void check_draft(const DraftConfig& draft) {
  constexpr std::int64_t kMostLayers = 1000, kWidest = std::int64_t{1} << 20;
  within("draft.layers", draft.layers, 1, kMostLayers);
  within("draft.block_size", draft.block_size, 2, 1024);
  within("draft.hidden_size", draft.hidden_size, 0, kWidest);
  within("draft.intermediate_size", draft.intermediate_size, 0, kWidest);
  within("draft.heads", draft.heads, 0, kWidest);
  within("draft.kv_heads", draft.kv_heads, 0, kWidest);
  within("draft.head_dim", draft.head_dim, 0, kWidest);
  if (draft.head_dim % 2 != 0) refuse("draft.head_dim", draft.head_dim, "even, since rotary positions turn pairs");
  if (draft.heads > 0 && draft.kv_heads > 0 && draft.heads % draft.kv_heads != 0) {
    refuse("draft.heads", draft.heads, text_of("a multiple of draft.kv_heads, ", draft.kv_heads));
  }
  layer_list("draft.taps", draft.taps, kMostLayers);
  within("draft.num_taps", draft.num_taps, 0, kMostLayers);
  const auto listed = static_cast<std::int64_t>(draft.taps.size());
  if (listed > 0 && draft.num_taps > 0 && draft.num_taps != listed) {
    refuse("draft.num_taps", draft.num_taps, text_of("left out, or ", listed, " as draft.taps lists"));
  }
  within("draft.vocab_size", draft.vocab_size, 0, kMostId);
  within("draft.mask_token_id", draft.mask_token_id, -1, kMostId);
  not_negative("draft.rope_theta", draft.rope_theta);
  share("draft.norm_eps", draft.norm_eps);
  within("draft.sliding_window", draft.sliding_window, 0, kMostTokens);
  layer_list("draft.sliding_layers", draft.sliding_layers, draft.layers);
  if ((draft.sliding_window > 0) != !draft.sliding_layers.empty()) {
    throw UsageError("draft.sliding_window and draft.sliding_layers go together: one is set and the other is not");
  }
}

void check_train(const TrainConfig& train) {
  within("train.row_length", train.row_length, 2, kMostTokens);
  within("train.anchors_per_document", train.anchors_per_document, 1, kMostTokens);
  within("train.anchors_per_pack", train.anchors_per_pack, 1, kMostTokens);
  within("train.accumulation", train.accumulation, 1, kMost);
  within("train.epochs", train.epochs, 1, kMost);
  within("train.max_steps", train.max_steps, 0, kMost);
  not_negative("train.max_minutes", train.max_minutes);
  positive("train.learning_rate", train.learning_rate);
  not_negative("train.min_learning_rate", train.min_learning_rate);
  if (train.min_learning_rate > train.learning_rate) {
    refuse("train.min_learning_rate", train.min_learning_rate,
           text_of("at most train.learning_rate, ", train.learning_rate));
  }
  not_negative("train.warmup", train.warmup);
  not_negative("train.weight_decay", train.weight_decay);
  share("train.beta1", train.beta1);
  share("train.beta2", train.beta2);
  positive("train.adam_eps", train.adam_eps);
  not_negative("train.clip", train.clip);
  not_negative("train.gamma", train.gamma);
  if (!(train.dpace_alpha >= 0 && train.dpace_alpha <= 1))
    refuse("train.dpace_alpha", train.dpace_alpha, "between 0 and 1");
  if (!(train.soft_labels >= 0 && train.soft_labels <= 1))
    refuse("train.soft_labels", train.soft_labels, "between 0 and 1");
  within("train.feature_cache_mb", train.feature_cache_mb, 0, kMost);
  within("train.feature_disk_mb", train.feature_disk_mb, 0, kMost);
  within("train.save_every", train.save_every, 0, kMost);
  within("train.keep_checkpoints", train.keep_checkpoints, 1, kMost);
  within("train.log_every", train.log_every, 1, kMost);
  within("train.eval_every", train.eval_every, 0, kMost);
}

}  // namespace

void check_run_config(const RunConfig& config) {
  if (config.output.empty()) refuse("output", "empty", "the path of a folder");
  within("threads", config.threads, 0, 4096);
  within("model.vocab_size", config.model.vocab_size, 0, kMostId);
  within("model.num_layers", config.model.num_layers, 0, 1 << 16);
  within("data.max_length", config.data.max_length, 2, kMostTokens);
  check_draft(config.draft);
  check_train(config.train);
  within("eval.prompts", config.eval.prompts, 1, kMost);
  within("eval.max_new_tokens", config.eval.max_new_tokens, 1, kMostTokens);
}

}  // namespace draftsmith
