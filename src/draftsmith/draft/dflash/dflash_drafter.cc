#include "draftsmith/draft/dflash/dflash_drafter.h"

#include <ATen/ops/tensor.h>

#include <algorithm>

#include "draftsmith/base/check.h"
#include "draftsmith/base/stopwatch.h"
#include "draftsmith/draft/dflash/block_inputs.h"
#include "draftsmith/draft/dflash/cost.h"
#include "draftsmith/draft/dflash/forward.h"
#include "draftsmith/draft/dflash/gguf.h"
#include "draftsmith/draft/dflash/init.h"
#include "draftsmith/draft/dflash/session.h"
#include "draftsmith/nn/mask.h"

namespace draftsmith {
namespace {

// The target's states [A*B, H] that predict the label of each slot: those one position before the label.
at::Tensor states_before(const BlockInputs& blocks, const at::Tensor& final_state) {
  const std::int64_t last = final_state.size(0) - 1;
  std::vector<std::int64_t> before;
  for (const std::int64_t anchor : blocks.anchors)
    for (std::int64_t j = 0; j < blocks.block_size; ++j)
      before.push_back(std::clamp<std::int64_t>(anchor + j - 1, 0, last));
  return final_state.index_select(0, at::tensor(before).to(final_state.device()));
}

void trace_inputs(const BlockInputs& blocks, Trace& trace) {
  trace.emplace_back("mask", dense_mask(*blocks.full_mask));
  if (blocks.sliding_mask != nullptr) trace.emplace_back("mask_sliding", dense_mask(*blocks.sliding_mask));
  trace.emplace_back("block_token_ids", at::tensor(blocks.block_token_ids));
  trace.emplace_back("block_position_ids", at::tensor(blocks.block_position_ids));
  trace.emplace_back("labels", at::tensor(blocks.labels));
}

void trace_outputs(const std::vector<at::Tensor>& layers, const at::Tensor& hidden, const LossResult& loss,
                   Trace& trace) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    trace.emplace_back("layer_output." + std::to_string(i), layers[i].detach());
  trace.emplace_back("hidden", hidden.detach());
  trace.emplace_back("weights", loss.weights);
  trace.emplace_back("accepted", at::tensor(loss.accepted));
  trace.emplace_back("nll", loss.nll);
}

}  // namespace

ParamList DFlashDrafter::params() const {
  ParamList list;
  visit_params(params_, [&](const std::string& name, const at::Tensor& tensor, Role role) {
    list.push_back({name, tensor, role});
  });
  return list;
}

LossSums DFlashDrafter::objective(const Frozen& frozen, const Batch& batch, const ObjectiveOptions& options) {
  PassTimes unasked;
  PassTimes& times = options.times != nullptr ? *options.times : unasked;
  Stopwatch watch;
  const BlockInputs blocks = make_block_inputs(batch.pack, batch.anchors, config_, frozen.head_rows);
  std::vector<at::Tensor> layers;
  const at::Tensor ids = at::tensor(blocks.block_token_ids).to(place_.device);
  const ForwardInputs inputs{.taps = batch.taps,
                             .block_embeddings = frozen.embedding.index_select(0, ids),
                             .blocks = &blocks,
                             .layer_outputs = options.trace != nullptr ? &layers : nullptr,
                             .recompute = options.recompute};
  const at::Tensor hidden = dflash_forward(config_, params_, inputs, place_.compute);
  times.forward_seconds += watch.lap();
  at::Tensor states;
  if (options.loss.soft_share > 0) states = states_before(blocks, batch.final_state).to(place_.compute);
  LossResult loss = head_loss(hidden.detach(), frozen.head, blocks, options.loss, states);
  times.head_seconds += watch.lap();
  if (hidden.requires_grad()) hidden.backward(loss.grad_hidden);
  times.backward_seconds += watch.lap();
  if (options.trace != nullptr) {
    trace_inputs(blocks, *options.trace);
    trace_outputs(layers, hidden, loss, *options.trace);
  }
  return loss;
}

std::unique_ptr<Drafter> DFlashDrafter::for_decoding(const Place& place) const {
  DFlashParams cast = params_;
  visit_params(cast, [&](const std::string&, at::Tensor& tensor, Role role) {
    tensor = is_computed(role) ? place.put(tensor.detach()) : tensor.detach().to(place.device);
  });
  return std::make_unique<DFlashDrafter>(config_, std::move(cast), place);
}

std::unique_ptr<DraftSession> DFlashDrafter::session(const Frozen& frozen, std::int64_t capacity) const {
  return std::make_unique<DFlashSession>(config_, params_, place_, frozen, capacity);
}

void DFlashDrafter::start_random(Rng& rng, const at::Tensor& head) {
  init_random(params_, rng);
  fit_final_norm(params_, head);
}

void DFlashDrafter::start_from_target(const TargetWeightFn& target_weight) {
  init_from_target(params_, config_, target_weight);
}

GgufDescription DFlashDrafter::gguf() const { return describe_dflash_gguf(config_); }

StepFlops DFlashDrafter::step_flops(const Frozen& frozen, const Batch& batch) const {
  return dflash_step_flops(config_, make_block_inputs(batch.pack, batch.anchors, config_, frozen.head_rows));
}

std::int64_t DFlashDrafter::step_bytes(const StepSize& size) const {
  return dflash_step_bytes(config_, place_.compute, size);
}

std::unique_ptr<Drafter> make_dflash(const DrafterConfig& config, const Place& place, const ParamSource& source) {
  DFlashParams params = dflash_shapes(config);
  visit_params(params, [&](const std::string& name, at::Tensor& tensor, Role role) {
    const std::vector<std::int64_t> sizes = tensor.sizes().vec();
    tensor = source(name, tensor, role);
    DRAFTSMITH_ASSERT(tensor.sizes() == at::IntArrayRef(sizes));
  });
  return std::make_unique<DFlashDrafter>(config, std::move(params), place);
}

}  // namespace draftsmith
