// The forward pass of training, whose layers are kept for backward or computed again there.
#include "draftsmith/draft/dflash/forward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The inputs that the layers of a training pass share, besides the residual stream.
struct PassInputs {
  DrafterConfig config;
  Rope rope;  // for the context's positions, then the blocks'
  Rope block_rope;
  at::ScalarType type;
};

// Context and block rows go through k_proj and v_proj as one product each.
Residual training_layer(const PassInputs& pass, const LayerParams& layer, const MaskPtr& mask,
                        const at::Tensor& context, const Residual& x) {
  const auto keys = [&](const at::Tensor& u) {
    return key_value(pass.config, layer, at::cat({context, u}), pass.rope);
  };
  return layer_forward(pass.config, layer, x, {pass.block_rope, mask, keys}, pass.type);
}

// Lists the tensors of a layer in the order of visit_layer, and reads them back.
variable_list tensors_of(const LayerParams& layer) {
  variable_list out;
  visit_layer(layer, "", [&](const std::string&, const at::Tensor& tensor, Role) { out.push_back(tensor); });
  return out;
}
LayerParams layer_of(const DecoderShape& shape, at::TensorList tensors) {
  LayerParams layer = layer_shapes(shape);
  auto next = tensors.begin();
  visit_layer(layer, "", [&](const std::string&, at::Tensor& tensor, Role) { tensor = *next++; });
  return layer;
}

// One layer of one pass, kept until its backward.
struct LayerCall : torch::CustomClassHolder {
  LayerCall(PassInputs p, MaskPtr m, bool delta) : pass(std::move(p)), mask(std::move(m)), has_delta(delta) {}
  PassInputs pass;
  MaskPtr mask;
  bool has_delta;  // true for all layers but the first
  // t holds context, residual, delta, then the layer's parameters. Nothing is recorded unless a tensor of t asks for
  // it, but gradients count as on, so that both passes run the same operations.
  Residual run(at::TensorList t) const {
    const at::AutoGradMode as_in_training(true);
    const Residual x{t[1], has_delta ? t[2] : at::Tensor()};
    return training_layer(pass, layer_of(pass.config, t.slice(has_delta ? 3 : 2)), mask, t[0], x);
  }
};

// Keeps a layer's inputs only; backward computes the layer again, then differentiates it.
struct RecomputedLayer : torch::autograd::Function<RecomputedLayer> {
  static variable_list forward(AutogradContext* ctx, const c10::intrusive_ptr<LayerCall>& call, at::TensorList t) {
    const Residual y = call->run(detached(t));
    ctx->save_for_backward(t.vec());
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return {y.residual, y.delta};
  }

  static variable_list detached(at::TensorList tensors) {
    variable_list out;
    for (const at::Tensor& tensor : tensors) out.push_back(tensor.detach());
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto capsule = ctx->saved_data["call"].toCapsule();
    variable_list wanted, inputs = detached(ctx->get_saved_variables());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (ctx->needs_input_grad(i)) wanted.push_back(inputs[i].requires_grad_(true));
    const Residual y = static_cast<const LayerCall&>(*capsule).run(inputs);
    const variable_list found = torch::autograd::grad({y.residual, y.delta}, wanted, grads);
    variable_list out = {at::Tensor()};  // the call itself has no gradient
    std::size_t next = 0;
    for (const at::Tensor& input : inputs) out.push_back(input.requires_grad() ? found[next++] : at::Tensor());
    return out;
  }
};

Residual recomputed_layer(const PassInputs& pass, const LayerParams& layer, const MaskPtr& mask,
                          const at::Tensor& context, const Residual& x) {
  variable_list inputs = {context, x.residual};
  if (x.delta.defined()) inputs.push_back(x.delta);
  for (const at::Tensor& tensor : tensors_of(layer)) inputs.push_back(tensor);
  const auto call = c10::make_intrusive<LayerCall>(pass, mask, x.delta.defined());
  const variable_list out = RecomputedLayer::apply(call, at::TensorList(inputs));
  return {out[0], out[1]};
}

}  // namespace

at::Tensor project_context(const DrafterConfig& config, const DFlashParams& params, const at::Tensor& taps,
                           at::ScalarType compute) {
  return rms_norm(linear(taps.to(compute), params.fc), params.hidden_norm, config.norm_eps, compute);
}

at::Tensor dflash_forward(const DrafterConfig& config, const DFlashParams& params, const ForwardInputs& inputs,
                          at::ScalarType compute) {
  const BlockInputs& blocks = *inputs.blocks;
  const auto num_context = static_cast<std::int64_t>(blocks.context_position_ids.size());
  const std::int64_t num_queries = blocks.num_blocks * blocks.block_size;
  DRAFTSMITH_ASSERT(inputs.taps.size(0) == num_context && inputs.block_embeddings.size(0) == num_queries);
  std::vector<std::int64_t> positions = blocks.context_position_ids;
  positions.insert(positions.end(), blocks.block_position_ids.begin(), blocks.block_position_ids.end());
  const Rope rope = rope_of(config, positions, inputs.block_embeddings.device());
  const PassInputs pass{
      .config = config,
      .rope = rope,
      .block_rope = {rope.cos.narrow(0, num_context, num_queries), rope.sin.narrow(0, num_context, num_queries)},
      .type = compute};
  const at::Tensor context = project_context(config, params, inputs.taps, compute);
  const auto layer_of_pass = inputs.recompute && c10::GradMode::is_enabled() ? recomputed_layer : training_layer;
  Residual x{inputs.block_embeddings.to(at::kFloat), {}};  // the residual stream stays fp32
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    x = layer_of_pass(pass, params.layers[i], blocks.mask(config.layer_kinds[i]), context, x);
    if (inputs.layer_outputs != nullptr) inputs.layer_outputs->push_back(at::add(x.residual, x.delta));
  }
  return add_rms_norm(x, params.norm, config.norm_eps, compute).normed;
}

}  // namespace draftsmith
