// Describes a run in plain structs with defaults. Every field is listed once, in visit_fields; parsing, --set,
// printing, checking and the help text all walk that list (config/yaml.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "draftsmith/config/choices.h"

namespace draftsmith {

struct ModelConfig {
  std::string path;  // the target: a GGUF file
  FeatureWeights feature_weights = FeatureWeights::kNative;
  // The target's sizes for `smoke`, which reads no model. Other commands take them from the file.
  std::int64_t vocab_size = 0;
  std::int64_t num_layers = 0;
};

struct DataConfig {
  std::string path;                // folder that `draftsmith prepare` wrote
  std::int64_t max_length = 1024;  // tokens of a document; longer ones are cut and get no invented end token
};

struct DraftConfig {
  DrafterFamily family = DrafterFamily::kDFlash;
  std::int64_t layers = 3;
  std::int64_t block_size = 8;
  std::int64_t hidden_size = 0;              // must be the target's; 0 = take it
  std::int64_t intermediate_size = 0;        // 0 = the target's
  std::int64_t heads = 0;                    // query heads; 0 = the target's
  std::int64_t kv_heads = 0;                 // 0 = the target's
  std::int64_t head_dim = 0;                 // 0 = the target's
  std::vector<std::int64_t> taps;            // target layers (0-based outputs); empty = the default spread for num_taps
  std::int64_t num_taps = 0;                 // used when taps is empty; 0 = as many as layers
  std::int64_t vocab_size = 0;               // ids a draft may hold, the data's most frequent; 0 = all
  std::int64_t mask_token_id = -1;           // -1 = choose an unused id and print it
  double rope_theta = 0;                     // 0 = the target's
  double norm_eps = 0;                       // 0 = the target's
  std::int64_t sliding_window = 0;           // 0 = no sliding layer
  std::vector<std::int64_t> sliding_layers;  // which layers slide (0-based)
  DraftInit init;
};

struct TrainConfig {
  std::int64_t row_length = 512;  // tokens of a pack
  std::int64_t anchors_per_document = 512;
  std::int64_t anchors_per_pack = 512;  // budget of a pack, shared among its documents
  std::int64_t accumulation = 1;        // packs in one optimizer step
  std::int64_t epochs = 6;
  std::int64_t max_steps = 0;  // 0 = no limit
  double max_minutes = 0;      // 0 = no limit; else fixes the number of steps from the first 20
  double learning_rate = 6e-4;
  double min_learning_rate = 0;
  double warmup = 0.04;  // share of all steps (< 1) or a number of steps (>= 1)
  double weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double adam_eps = 1e-8;
  double clip = 1.0;  // global gradient norm; 0 = off
  LossKind loss = LossKind::kDecay;
  double gamma = 0;  // 0 = by block size: 7, 5, 4 for 16, 10, 8
  double dpace_alpha = 0.5;
  double soft_labels = 0;  // share of KL(target || drafter) in the loss; 0 = the labels alone
  Compute compute = Compute::kBFloat16;
  bool recompute = false;                // recompute each layer in the backward pass instead of keeping it
  std::int64_t feature_cache_mb = 4096;  // hidden states kept in memory for later epochs
  std::int64_t feature_disk_mb = 16384;  // then on disk, in the run's folder
  std::int64_t save_every = 200;         // steps; 0 = only at the end
  std::int64_t keep_checkpoints = 2;
  std::int64_t log_every = 10;
  std::int64_t eval_every = 0;  // steps between evaluations of the held-out loss; 0 = only at the end
};

struct EvalConfig {
  std::int64_t prompts = 40;  // held-out documents decoded
  std::int64_t max_new_tokens = 128;
};

struct RunConfig {
  std::string output = "runs/default";
  std::uint64_t seed = 1;
  std::int64_t threads = 0;  // 0 = all cores
  ModelConfig model;
  DataConfig data;
  DraftConfig draft;
  TrainConfig train;
  EvalConfig eval;
};

// Calls visit(section, key, field, help) for every field; `section` is "" for the top level, and `c` may be const. The
// help of a choice does not list its values, since the printed help adds them from the list of names.
template <class Config, class Visit>
void visit_fields(Config& c, Visit visit) {
  visit("", "output", c.output, "folder of the run, for checkpoints, metrics and the complete configuration");
  visit("", "seed", c.seed, "seed of everything random in the run");
  visit("", "threads", c.threads, "CPU threads; 0 = all cores");
  visit("model", "path", c.model.path, "the target model, a GGUF file");
  visit("model", "feature_weights", c.model.feature_weights, "weights that the target computes hidden states with");
  visit("model", "vocab_size", c.model.vocab_size, "vocabulary size of the target, for `smoke`, which reads no model");
  visit("model", "num_layers", c.model.num_layers, "number of layers of the target, for `smoke`, which reads no model");
  visit("data", "path", c.data.path, "folder that `draftsmith prepare` wrote");
  visit("data", "max_length", c.data.max_length,
        "largest number of tokens in a document; longer ones are cut at the end");
  visit("draft", "family", c.draft.family, "family of the drafter");
  visit("draft", "layers", c.draft.layers, "number of layers of the drafter");
  visit("draft", "block_size", c.draft.block_size, "block size B: the anchor's token and B-1 drafts");
  visit("draft", "hidden_size", c.draft.hidden_size,
        "width of the drafter, which must be the target's; 0 = the target's");
  visit("draft", "intermediate_size", c.draft.intermediate_size, "width of the MLP; 0 = the target's");
  visit("draft", "heads", c.draft.heads, "number of query heads; 0 = the target's");
  visit("draft", "kv_heads", c.draft.kv_heads, "number of key/value heads; 0 = the target's");
  visit("draft", "head_dim", c.draft.head_dim, "size of a head; 0 = the target's");
  visit("draft", "taps", c.draft.taps, "target layers whose outputs the drafter reads (0-based); [] = an even spread");
  visit("draft", "num_taps", c.draft.num_taps, "number of taps when `taps` is []; 0 = one per layer of the drafter");
  visit("draft", "vocab_size", c.draft.vocab_size,
        "draft vocabulary: number of ids to draft from, the most frequent ones in the training data; 0 = all of the "
        "target's");
  visit("draft", "mask_token_id", c.draft.mask_token_id, "id of the mask token; -1 = choose an unused id and print it");
  visit("draft", "rope_theta", c.draft.rope_theta, "base of the rotary positions; 0 = the target's");
  visit("draft", "norm_eps", c.draft.norm_eps, "epsilon of the RMS norms; 0 = the target's");
  visit("draft", "sliding_window", c.draft.sliding_window,
        "window of the sliding layers, in tokens; 0 = no layer slides");
  visit("draft", "sliding_layers", c.draft.sliding_layers, "layers of the drafter that slide (0-based)");
  visit("draft", "init", c.draft.init, "where the first weights come from");
  visit("train", "row_length", c.train.row_length, "number of tokens in a pack");
  visit("train", "anchors_per_document", c.train.anchors_per_document,
        "largest number of anchors drawn in one document");
  visit("train", "anchors_per_pack", c.train.anchors_per_pack, "largest number of anchors in one pack");
  visit("train", "accumulation", c.train.accumulation, "number of packs in one optimizer step");
  visit("train", "epochs", c.train.epochs, "number of passes over the data");
  visit("train", "max_steps", c.train.max_steps, "stop after this many optimizer steps; 0 = no limit");
  visit("train", "max_minutes", c.train.max_minutes, "fit the number of steps to this time; 0 = no limit");
  visit("train", "learning_rate", c.train.learning_rate, "peak learning rate");
  visit("train", "min_learning_rate", c.train.min_learning_rate, "learning rate at the end of the cosine");
  visit("train", "warmup", c.train.warmup, "warm-up, as a share of the steps (< 1) or a number of steps (>= 1)");
  visit("train", "weight_decay", c.train.weight_decay, "AdamW weight decay");
  visit("train", "beta1", c.train.beta1, "AdamW beta1");
  visit("train", "beta2", c.train.beta2, "AdamW beta2");
  visit("train", "adam_eps", c.train.adam_eps, "AdamW epsilon");
  visit("train", "clip", c.train.clip, "largest global gradient norm; 0 = off");
  visit("train", "loss", c.train.loss, "how the slots of a block are weighted");
  visit("train", "gamma", c.train.gamma, "decay of the slot weights; 0 = chosen by block size");
  visit("train", "dpace_alpha", c.train.dpace_alpha, "alpha of D-PACE");
  visit("train", "soft_labels", c.train.soft_labels,
        "share of the loss that is the divergence from the target's own distribution; the rest is the labels' "
        "cross-entropy");
  visit("train", "compute", c.train.compute, "type of the matrix products");
  visit("train", "recompute", c.train.recompute,
        "recompute each layer in the backward pass instead of keeping it: less memory, a third more work");
  visit("train", "feature_cache_mb", c.train.feature_cache_mb, "megabytes of hidden states kept in memory");
  visit("train", "feature_disk_mb", c.train.feature_disk_mb,
        "megabytes of hidden states kept on disk when memory is full");
  visit("train", "save_every", c.train.save_every, "steps between checkpoints; 0 = only at the end");
  visit("train", "keep_checkpoints", c.train.keep_checkpoints, "number of newest checkpoints that are kept");
  visit("train", "log_every", c.train.log_every, "steps between lines of metrics");
  visit("train", "eval_every", c.train.eval_every,
        "steps between measurements of the held-out loss; 0 = only at the end");
  visit("eval", "prompts", c.eval.prompts, "number of held-out documents that training measures and `eval` decodes");
  visit("eval", "max_new_tokens", c.eval.max_new_tokens, "largest number of tokens decoded for a prompt");
}

}  // namespace draftsmith
