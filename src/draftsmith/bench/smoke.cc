#include "draftsmith/bench/smoke.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "draftsmith/base/check.h"
#include "draftsmith/base/memory.h"
#include "draftsmith/base/stopwatch.h"
#include "draftsmith/base/words.h"
#include "draftsmith/bench/random_row.h"
#include "draftsmith/draft/dflash/layer.h"
#include "draftsmith/draft/dflash/recipe.h"
#include "draftsmith/draft/loss.h"
#include "draftsmith/model/decoder_shape.h"
#include "draftsmith/train/trainer.h"

namespace draftsmith {
namespace {

// Two ways of computing attention may differ by what bf16 rounds, through all layers; fp32 leaves far less.
constexpr double kBFloat16Bound = 0.05, kFloatBound = 1e-4;
constexpr std::uint64_t kHeadKey = 3;

double difference(const at::Tensor& a, const at::Tensor& b) {
  const auto norm = [](const at::Tensor& t) { return at::linalg_vector_norm(t.to(at::kFloat)).item<double>(); };
  return norm(a.to(at::kFloat) - b.to(at::kFloat)) / std::max(norm(b), 1e-30);
}

// Position 3/8, 9/32, 13/64 and the rest: four documents of unequal length.
std::vector<std::int64_t> four_documents(std::int64_t tokens) {
  std::vector<std::int64_t> lengths = {tokens * 3 / 8, tokens * 9 / 32, tokens * 13 / 64};
  lengths.push_back(tokens - std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  return lengths;
}

class Smoke {
 public:
  Smoke(const RunConfig& config, const DrafterConfig& drafter, const SmokeOptions& options)
      : config_(config),
        drafter_(drafter),
        options_(options),
        compute_(compute_of(config)),
        type_(scalar_type_of(compute_)) {}

  SmokeReport run() {
    report_.parameters = num_parameters(drafter_);
    tell("making parameters and head");
    params_ = random_drafter(drafter_, type_, config_.seed);
    visit_params(params_, [](const std::string&, at::Tensor& t) { t.set_requires_grad(true); });
    head_ = random_matrix(drafter_.head_rows(), drafter_.hidden_size, 0.02, type_, config_.seed, kHeadKey);
    if (options_.row_tokens > 0) {
      const RandomRow row = make_row(four_documents(options_.row_tokens));
      pass("row of " + std::to_string(options_.row_tokens), row, /*recompute=*/true);
    } else {
      RandomRow packed = make_row({50, 30});
      apart_and_alike(packed);
      pass("one document of 80", make_row({80}), config_.train.recompute);
    }
    return std::move(report_);
  }

 private:
  void tell(const std::string& text) const {
    if (options_.notice) options_.notice(text);
  }

  void check(const std::string& name, bool ok, const std::string& detail) {
    report_.checks.push_back({.name = name, .ok = ok, .detail = detail});
  }

  RandomRow make_row(const std::vector<std::int64_t>& lengths) const {
    Pack pack = random_pack(drafter_, lengths, config_.seed);
    const std::int64_t most = options_.anchors > 0 ? options_.anchors : pack.length;
    Rng rng(config_.seed, RngPurpose::kAnchors, {0});
    const std::vector<std::int64_t> anchors = sample_anchors(pack, {.per_document = most, .per_pack = most}, rng);
    RandomRow row =
        random_row(drafter_, std::move(pack), anchors, attention_path_for(drafter_.head_dim), type_, config_.seed);
    // Labels are rows of the head, which may be smaller than the vocabulary.
    for (std::int32_t& label : row.blocks.labels)
      if (label >= head_.size(0)) label = -1;
    return row;
  }

  LossOptions loss_options() const {
    return {.kind = config_.train.loss, .gamma = config_.train.gamma, .dpace_alpha = config_.train.dpace_alpha};
  }

  void clear_gradients() {
    visit_params(params_, [](const std::string&, at::Tensor& t) { t.mutable_grad() = at::Tensor(); });
  }

  // Forward and head; the caller goes back.
  struct Forward {
    at::Tensor hidden;
    LossResult loss;
  };
  Forward forward(SmokePass& figures, const DrafterParams& params, const ForwardInputs& inputs) const {
    Stopwatch watch;
    Forward out;
    out.hidden = drafter_forward(drafter_, params, inputs, compute_);
    figures.forward_seconds = watch.lap();
    out.loss = head_loss(out.hidden, head_, *inputs.blocks, loss_options());
    figures.head_seconds = watch.lap();
    figures.loss = out.loss.loss_sum / out.loss.weight_sum;
    figures.accuracy = out.loss.correct_sum / out.loss.mask_sum;
    return out;
  }

  SmokePass begin(const std::string& name, const RandomRow& row) const {
    tell(name + ": " + std::to_string(row.pack.length) + " tokens, " + std::to_string(row.blocks.num_blocks) +
         " anchors");
    reset_peak_memory();
    return {.name = name, .tokens = row.pack.length, .anchors = row.blocks.num_blocks};
  }

  void end(SmokePass figures) {
    figures.peak_bytes = peak_resident_bytes();
    const std::string in = " (" + figures.name + ")";
    check("loss is finite" + in, std::isfinite(figures.loss), text_of(figures.loss));
    check("accuracy lies in 0 .. 1" + in, figures.accuracy >= 0 && figures.accuracy <= 1, text_of(figures.accuracy));
    std::int64_t tensors = 0;
    std::string bad;
    visit_params(params_, [&](const std::string& name, const at::Tensor& t) {
      ++tensors;
      const at::Tensor grad = t.grad();
      const double size = grad.defined() ? at::linalg_vector_norm(grad, 2, {}, false, at::kFloat).item<double>() : 0;
      if ((!std::isfinite(size) || size == 0) && bad.empty()) bad = name + ": " + text_of(size);
    });
    check("every gradient is finite and not zero" + in, bad.empty(),
          bad.empty() ? std::to_string(tensors) + " tensors" : bad);
    report_.passes.push_back(std::move(figures));
  }

  void pass(const std::string& name, const RandomRow& row, bool recompute) {
    clear_gradients();
    SmokePass figures = begin(name, row);
    ForwardInputs inputs = row.inputs();
    inputs.recompute = recompute;
    const Forward result = forward(figures, params_, inputs);
    Stopwatch watch;
    result.hidden.backward(result.loss.grad_hidden);
    figures.backward_seconds = watch.lap();
    end(std::move(figures));
  }

  // The packed row: backward from one document's blocks, then from the other's, so that what crosses would be seen;
  // then the same row with plain attention.
  void apart_and_alike(RandomRow& row) {
    clear_gradients();
    SmokePass figures = begin("packed 50 + 30", row);
    ForwardInputs inputs = row.inputs();
    inputs.recompute = config_.train.recompute;
    row.features.set_requires_grad(true);
    row.block_embeddings.set_requires_grad(true);
    const Forward result = forward(figures, params_, inputs);
    const std::int64_t cut = row.pack.documents[1].begin;
    const std::int64_t first_rows =
        drafter_.block_size * std::count_if(row.blocks.anchors.begin(), row.blocks.anchors.end(),
                                            [&](std::int64_t anchor) { return anchor < cut; });
    at::Tensor all_features;
    double crossed = 0;
    for (const bool second : {false, true}) {
      const at::Tensor gradient = result.loss.grad_hidden.clone();
      rows_of(gradient, first_rows, !second).zero_();
      Stopwatch watch;
      result.hidden.backward(gradient, /*retain_graph=*/!second);
      figures.backward_seconds = watch.lap();  // of one: both are whole passes
      // What the other document got.
      crossed += rows_of(row.features.grad(), cut, !second).abs().sum().item<double>() +
                 rows_of(row.block_embeddings.grad(), first_rows, !second).abs().sum().item<double>();
      all_features = second ? all_features + row.features.grad() : row.features.grad();
      row.features.mutable_grad() = at::Tensor();
      row.block_embeddings.mutable_grad() = at::Tensor();
    }
    end(std::move(figures));
    check("no gradient crosses documents", crossed == 0, text_of(crossed));
    if (attention_path_for(drafter_.head_dim) == AttentionPath::kFused)
      compare_with_plain(row, result.hidden.detach(), all_features);
  }

  // Rows before `cut`, or those from it on.
  static at::Tensor rows_of(const at::Tensor& t, std::int64_t cut, bool behind) {
    return behind ? t.narrow(0, cut, t.size(0) - cut) : t.narrow(0, 0, cut);
  }

  void compare_with_plain(const RandomRow& row, const at::Tensor& hidden, const at::Tensor& feature_gradient) {
    SmokePass figures = begin("packed, plain attention", row);
    DrafterParams frozen = params_;
    visit_params(frozen, [](const std::string&, at::Tensor& t) { t = t.detach(); });
    BlockInputs blocks = row.blocks;
    const BlockInputs plain = make_block_inputs(row.pack, row.blocks.anchors, drafter_, AttentionPath::kPlain);
    blocks.full = plain.full, blocks.sliding = plain.sliding;
    const ForwardInputs inputs{
        .features = row.features, .block_embeddings = row.block_embeddings.detach(), .blocks = &blocks};
    const Forward result = forward(figures, frozen, inputs);
    Stopwatch watch;
    result.hidden.backward(result.loss.grad_hidden);
    figures.backward_seconds = watch.lap();
    figures.peak_bytes = peak_resident_bytes();
    report_.passes.push_back(figures);
    const double bound = type_ == at::kBFloat16 ? kBFloat16Bound : kFloatBound;
    const double forward_error = difference(hidden, result.hidden.detach());
    const double backward_error = difference(feature_gradient, row.features.grad());
    check("fused attention as plain, forward", forward_error <= bound, text_of(forward_error, " of ", bound));
    check("fused attention as plain, backward", backward_error <= bound, text_of(backward_error, " of ", bound));
  }

  const RunConfig& config_;
  const DrafterConfig drafter_;
  const SmokeOptions& options_;
  const Compute compute_;
  const at::ScalarType type_;
  DrafterParams params_;
  at::Tensor head_;  // [V_draft, H]
  SmokeReport report_;
};

}  // namespace

bool SmokeReport::all_ok() const {
  return std::all_of(checks.begin(), checks.end(), [](const SmokeCheck& c) { return c.ok; });
}

DrafterConfig drafter_config_without_target(const RunConfig& config) {
  const DraftConfig& draft = config.draft;
  std::string missing;
  const auto needed = [&](const char* key, std::int64_t value) {
    if (value <= 0) missing += (missing.empty() ? "" : ", ") + std::string(key);
  };
  needed("model.vocab_size", config.model.vocab_size);
  needed("model.num_layers", config.model.num_layers);
  needed("draft.hidden_size", draft.hidden_size);
  needed("draft.intermediate_size", draft.intermediate_size);
  needed("draft.heads", draft.heads);
  needed("draft.kv_heads", draft.kv_heads);
  needed("draft.head_dim", draft.head_dim);
  require(missing.empty(), "the recipe must give ", missing,
          ", since no model is read; add them, or pass --set KEY=VALUE (recipes/seed.yaml has all)");
  DecoderShape target;
  target.num_layers = config.model.num_layers;
  target.hidden_size = draft.hidden_size;
  target.vocab_size = config.model.vocab_size;
  const std::int64_t mask = draft.mask_token_id >= 0 ? draft.mask_token_id : config.model.vocab_size - 1;
  return resolve_drafter_config(config, target, static_cast<std::int32_t>(mask));
}

SmokeReport smoke(const RunConfig& config, const DrafterConfig& drafter, const SmokeOptions& options) {
  require(options.row_tokens == 0 || options.row_tokens >= 16, "a row of ", options.row_tokens,
          " tokens is too short for four documents; give at least 16");
  return Smoke(config, drafter, options).run();
}

std::string to_text(const SmokeReport& report) {
  std::string out = fmt::format("parameters  {} ({:.1f}M)\n\n", with_commas(report.parameters),
                                static_cast<double>(report.parameters) / 1e6);
  out += "pass                      tokens  anchors    loss  accuracy   forward  head+loss  backward  peak memory\n";
  for (const SmokePass& p : report.passes)
    out += fmt::format("{:<24} {:7} {:8} {:7.3f} {:9.5f} {:7.1f} s  {:7.1f} s {:7.1f} s  {:8.2f} GiB\n", p.name,
                       p.tokens, p.anchors, p.loss, p.accuracy, p.forward_seconds, p.head_seconds, p.backward_seconds,
                       static_cast<double>(p.peak_bytes) / (1 << 30));
  out += "\n";
  for (const SmokeCheck& c : report.checks)
    out += fmt::format("{:<6} {:<62} {}\n", c.ok ? "ok" : "FAILED", c.name, c.detail);
  return out;
}

}  // namespace draftsmith
