#include "draftsmith/draft/recipe.h"

#include "draftsmith/base/check.h"
#include "draftsmith/model/tap_rules.h"

namespace draftsmith {
namespace {

std::vector<LayerKind> layer_kinds(const DraftConfig& draft) {
  std::vector<LayerKind> kinds(draft.layers, LayerKind::kFull);
  for (const std::int64_t layer : draft.sliding_layers) {
    DRAFTSMITH_ASSERT(layer >= 0 && layer < draft.layers);  // check_run_config
    kinds[layer] = LayerKind::kSliding;
  }
  return kinds;
}

}  // namespace

DrafterConfig resolve_drafter_config(const RunConfig& config, const DecoderShape& target, std::int32_t mask_token_id) {
  const DraftConfig& draft = config.draft;
  require(draft.hidden_size == 0 || draft.hidden_size == target.hidden_size, "draft.hidden_size is ", draft.hidden_size,
          " but the target's is ", target.hidden_size, ", and the drafter shares its embedding and head; set it to 0");
  require(draft.vocab_size <= target.vocab_size, "draft.vocab_size is ", draft.vocab_size, " but the target has ",
          target.vocab_size, " ids; lower it, or set it to 0 to draft from all ids");
  require(draft.init.kind != DraftInit::Kind::kTarget || draft.layers <= target.num_layers,
          "draft.init: target copies one target layer for each drafter layer, but draft.layers is ", draft.layers,
          " and the target has ", target.num_layers, "; set draft.init to random or take fewer layers");
  require(mask_token_id >= 0 && mask_token_id < target.vocab_size, "draft.mask_token_id is ", mask_token_id,
          ", but the target's ids are 0 .. ", target.vocab_size - 1, "; choose one of them, or -1");
  const auto or_target = [](auto own, auto targets) { return own != 0 ? own : targets; };
  DrafterConfig out;
  out.family = draft.family;
  out.hidden_size = target.hidden_size;
  out.intermediate_size = or_target(draft.intermediate_size, target.intermediate_size);
  out.num_layers = draft.layers;
  out.num_heads = or_target(draft.heads, target.num_heads);
  out.num_kv_heads = or_target(draft.kv_heads, target.num_kv_heads);
  out.head_dim = or_target(draft.head_dim, target.head_dim);
  out.vocab_size = target.vocab_size;
  out.draft_vocab_size = draft.vocab_size < target.vocab_size ? draft.vocab_size : 0;
  out.block_size = draft.block_size;
  out.mask_token_id = mask_token_id;
  out.num_target_layers = target.num_layers;
  out.target_layer_ids = draft.taps;
  if (draft.taps.empty())
    out.target_layer_ids = default_taps(or_target(draft.num_taps, draft.layers), target.num_layers);
  check_taps(out.target_layer_ids, target.num_layers);
  out.norm_eps = or_target(draft.norm_eps, target.norm_eps);
  out.rope_theta = or_target(draft.rope_theta, target.rope_theta);
  out.layer_kinds = layer_kinds(draft);
  out.sliding_window = draft.sliding_window;
  out.context_length = or_target(target.context_length, out.context_length);
  check_drafter_config(out);
  return out;
}

}  // namespace draftsmith
