#include "draftsmith/draft/dflash/init.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "draftsmith/base/check.h"
#include "draftsmith/base/words.h"

namespace draftsmith {
namespace {

class Copier {
 public:
  explicit Copier(const TargetWeightFn& target_weight) : target_weight_(target_weight) {}

  void copy(const DecoderWeight& weight, const at::Tensor& to, const std::string& setting) const {
    const at::Tensor from = target_weight_(weight);
    const std::string name = gguf_name(weight);
    require(from.defined(), "draft.init: target needs the target's tensor '", name,
            "', which this model does not have; set draft.init to random");
    require(from.sizes() == to.sizes(), "draft.init: target cannot copy '", name, "': it is ", shape_text(from.sizes()),
            ", but the drafter needs ", shape_text(to.sizes()), "; leave ", setting,
            " at the target's size or set draft.init to random");
    to.copy_(from);
  }

  // Copies the target's own scale of normalised heads. Where it has none, a constant makes q or k as large as they are
  // in the target: for an input of unit variance and no preferred direction, each output of W has variance sum_i W_i^2.
  void copy_head_norm(const DecoderWeight& weight, const at::Tensor& to, const at::Tensor& matrix) const {
    if (target_weight_(weight).defined()) {
      copy(weight, to, "draft.head_dim");
    } else {
      to.fill_(matrix.square().sum(1).mean().sqrt());
    }
  }

 private:
  const TargetWeightFn& target_weight_;
};

// The weights of attn_norm go into the columns of q, k and v, and the norm's own become 1. A layer's k_proj and v_proj
// read the block through its input norm and the context through hidden_norm, which all layers share. Folded, both give
// what the target's layer gives for the same state.
void copy_layer(const Copier& copier, std::int64_t source, LayerParams& layer) {
  const std::string hidden = "draft.hidden_size", heads = "draft.heads, draft.kv_heads and draft.head_dim",
                    intermediate = "draft.intermediate_size";
  copier.copy({DecoderParam::kInputNorm, source}, layer.input_layernorm, hidden);
  copier.copy({DecoderParam::kQ, source}, layer.q_proj, heads);
  copier.copy({DecoderParam::kK, source}, layer.k_proj, heads);
  copier.copy({DecoderParam::kV, source}, layer.v_proj, heads);
  for (at::Tensor* matrix : {&layer.q_proj, &layer.k_proj, &layer.v_proj}) matrix->mul_(layer.input_layernorm);
  layer.input_layernorm.fill_(1.0);
  copier.copy({DecoderParam::kO, source}, layer.o_proj, heads);
  copier.copy_head_norm({DecoderParam::kQNorm, source}, layer.q_norm, layer.q_proj);
  copier.copy_head_norm({DecoderParam::kKNorm, source}, layer.k_norm, layer.k_proj);
  copier.copy({DecoderParam::kPostAttentionNorm, source}, layer.post_attention_layernorm, hidden);
  copier.copy({DecoderParam::kGate, source}, layer.gate_proj, intermediate);
  copier.copy({DecoderParam::kUp, source}, layer.up_proj, intermediate);
  copier.copy({DecoderParam::kDown, source}, layer.down_proj, intermediate);
}

}  // namespace

void fit_final_norm(DFlashParams& params, const at::Tensor& head) {
  const c10::NoGradGuard no_gradients;
  const double row_square = head.to(at::kFloat).square().sum(1).mean().item<double>();
  params.norm.fill_(row_square > 1 ? 1 / std::sqrt(row_square) : 1.0);
}

void init_from_target(DFlashParams& params, const DrafterConfig& config, const TargetWeightFn& target_weight) {
  const c10::NoGradGuard no_gradients;
  DRAFTSMITH_ASSERT(config.num_layers <= config.num_target_layers);  // resolve_drafter_config refuses more
  const Copier copier(target_weight);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const std::int64_t source = config.num_target_layers - config.num_layers + i;
    copy_layer(copier, source, params.layers[i]);
  }
  copier.copy({DecoderParam::kOutputNorm}, params.norm, "draft.hidden_size");
  params.hidden_norm.fill_(1.0);
  params.fc.zero_();
  params.fc.narrow(1, (config.num_taps() - 1) * config.hidden_size, config.hidden_size).fill_diagonal_(1.0);
}

}  // namespace draftsmith
