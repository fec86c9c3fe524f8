#include "draftsmith/bench/smoke.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "draftsmith/base/check.h"
#include "draftsmith/base/memory.h"
#include "draftsmith/base/stopwatch.h"
#include "draftsmith/base/words.h"
#include "draftsmith/bench/random_batch.h"
#include "draftsmith/draft/recipe.h"
#include "draftsmith/model/decoder_shape.h"
#include "draftsmith/nn/kernels.h"
#include "draftsmith/train/trainer.h"

namespace draftsmith {
namespace {

// Kernels and definitions may differ by what bf16 rounds through all layers; fp32 rounds far less.
constexpr double kBFloat16Bound = 0.05, kFloatBound = 1e-4;

double difference(const at::Tensor& a, const at::Tensor& b) {
  const auto norm = [](const at::Tensor& t) { return at::linalg_vector_norm(t.to(at::kFloat)).item<double>(); };
  return norm(a.to(at::kFloat) - b.to(at::kFloat)) / std::max(norm(b), 1e-30);
}

// Returns the lengths of four unequal documents: 3/8, 9/32 and 13/64 of the tokens, and the rest.
std::vector<std::int64_t> four_documents(std::int64_t tokens) {
  std::vector<std::int64_t> lengths = {tokens * 3 / 8, tokens * 9 / 32, tokens * 13 / 64};
  lengths.push_back(tokens - std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  return lengths;
}

// One pack of random numbers.
struct RandomBatch {
  Pack pack;
  std::vector<std::int64_t> anchors;
  at::Tensor taps;
  Batch batch() const { return {.pack = pack, .anchors = anchors, .taps = taps}; }
};

class Smoke {
 public:
  Smoke(Drafter& drafter, const Frozen& frozen, const RunConfig& config, const SmokeOptions& options)
      : drafter_(drafter), frozen_(frozen), config_(config), options_(options) {}

  SmokeReport run() {
    report_.parameters = num_parameters(drafter_);
    for (const Param& param : drafter_.params()) param.tensor.set_requires_grad(true);
    if (options_.row_tokens > 0) {
      pass("pack of " + std::to_string(options_.row_tokens), make_batch(four_documents(options_.row_tokens)),
           /*recompute=*/true);
    } else {
      apart_and_alike(make_batch({50, 30}));
      pass("one document of 80", make_batch({80}), config_.train.recompute);
    }
    clear_gradients();
    return std::move(report_);
  }

 private:
  void tell(const std::string& text) const {
    if (options_.notice) options_.notice(text);
  }

  void check(const std::string& name, bool ok, const std::string& detail) {
    report_.checks.push_back({.name = name, .ok = ok, .detail = detail});
  }

  RandomBatch make_batch(const std::vector<std::int64_t>& lengths) const {
    RandomBatch out{.pack = random_pack(drafter_.config(), lengths, config_.seed), .anchors = {}, .taps = {}};
    out.anchors = random_anchors(out.pack, options_.anchors > 0 ? options_.anchors : out.pack.length, config_.seed);
    out.taps = random_taps(drafter_.config(), out.pack.length, drafter_.place().compute, config_.seed);
    return out;
  }

  ObjectiveOptions objective_options(bool recompute) const {
    return {
        .loss = {.kind = config_.train.loss, .gamma = config_.train.gamma, .dpace_alpha = config_.train.dpace_alpha},
        .recompute = recompute};
  }

  void clear_gradients() const {
    for (const Param& param : drafter_.params()) param.tensor.mutable_grad() = at::Tensor();
  }

  SmokePass begin(const std::string& name, const RandomBatch& batch) const {
    const auto anchors = static_cast<std::int64_t>(batch.anchors.size());
    tell(name + ": " + std::to_string(batch.pack.length) + " tokens, " + std::to_string(anchors) + " anchors");
    reset_peak_memory();
    return {.name = name, .tokens = batch.pack.length, .anchors = anchors};
  }

  void end(SmokePass figures, const LossSums& sums, const PassTimes& times) {
    figures.loss = sums.loss_sum / sums.weight_sum;
    figures.accuracy = sums.correct_sum / sums.mask_sum;
    figures.forward_seconds = times.forward_seconds;
    figures.head_seconds = times.head_seconds;
    figures.backward_seconds = times.backward_seconds;
    figures.peak_bytes = peak_resident_bytes();
    report_.passes.push_back(std::move(figures));
  }

  void check_figures(const SmokePass& figures) {
    const std::string in = " (" + figures.name + ")";
    check("loss is finite" + in, std::isfinite(figures.loss), text_of(figures.loss));
    check("accuracy lies in 0 .. 1" + in, figures.accuracy >= 0 && figures.accuracy <= 1, text_of(figures.accuracy));
    const ParamList params = drafter_.params();
    std::string bad;
    for (const Param& param : params) {
      const at::Tensor grad = param.tensor.grad();
      const double size = grad.defined() ? at::linalg_vector_norm(grad, 2, {}, false, at::kFloat).item<double>() : 0;
      if ((!std::isfinite(size) || size == 0) && bad.empty()) bad = param.name + ": " + text_of(size);
    }
    check("every gradient is finite and not zero" + in, bad.empty(),
          bad.empty() ? std::to_string(params.size()) + " tensors" : bad);
  }

  void pass(const std::string& name, const RandomBatch& batch, bool recompute) {
    clear_gradients();
    SmokePass figures = begin(name, batch);
    PassTimes times;
    ObjectiveOptions options = objective_options(recompute);
    options.times = &times;
    const LossSums sums = drafter_.objective(frozen_, batch.batch(), options);
    end(std::move(figures), sums, times);
    check_figures(report_.passes.back());
  }

  // Runs the packed documents one after the other: first only one's labels count, then only the other's.
  void apart_and_alike(const RandomBatch& whole) {
    clear_gradients();
    SmokePass figures = begin("packed 50 + 30", whole);
    PassTimes times;
    LossSums sums;
    double crossed = 0, read = 0;
    Outcome first;
    for (const std::size_t document : {std::size_t{0}, std::size_t{1}}) {
      const RandomBatch only = counting_only(whole, document);
      times = {};  // each document is a whole pass; the last one's times are kept
      const Outcome outcome = outcome_of(only, &times);
      sums.add(outcome.sums);
      for (const DocumentSpan& span : others(whole, document))
        crossed += rows_of(outcome.taps_gradient, span).abs().sum().item<double>();
      read += std::abs(loss_beside_another(only, document) - outcome.sums.loss_sum);
      if (document == 0) first = outcome;
    }
    end(std::move(figures), sums, times);
    check_figures(report_.passes.back());
    check("no gradient crosses documents", crossed == 0, text_of(crossed));
    check("no document reads another", read == 0, text_of(read));
    compare_with_definitions(counting_only(whole, 0), first);
  }

  struct Outcome {
    LossSums sums;
    at::Tensor hidden, taps_gradient;
  };
  Outcome outcome_of(const RandomBatch& in, PassTimes* times) const {
    const at::Tensor taps = in.taps.detach().clone().requires_grad_(true);
    Trace trace;
    ObjectiveOptions options = objective_options(config_.train.recompute);
    options.times = times;
    options.trace = &trace;
    Outcome out;
    out.sums = drafter_.objective(frozen_, {.pack = in.pack, .anchors = in.anchors, .taps = taps}, options);
    out.taps_gradient = taps.grad().to(at::kFloat);
    for (const auto& [name, tensor] : trace)
      if (name == "hidden") out.hidden = tensor;
    return out;
  }

  static std::vector<DocumentSpan> others(const RandomBatch& in, std::size_t document) {
    std::vector<DocumentSpan> out = in.pack.documents;
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(document));
    return out;
  }
  static at::Tensor rows_of(const at::Tensor& t, const DocumentSpan& span) {
    return t.narrow(0, span.begin, span.length);
  }

  // Returns the same pack with labels in one document only.
  static RandomBatch counting_only(const RandomBatch& whole, std::size_t document) {
    RandomBatch out = whole;
    for (const DocumentSpan& span : others(whole, document))
      std::fill_n(out.pack.loss_mask.begin() + span.begin, span.length, std::uint8_t{0});
    return out;
  }

  // Returns the document's loss when the other documents have other tokens and taps.
  double loss_beside_another(const RandomBatch& only, std::size_t document) const {
    const at::NoGradGuard no_gradients;
    RandomBatch changed = only;
    changed.taps = only.taps.clone();
    for (const DocumentSpan& span : others(only, document)) {
      rows_of(changed.taps, span).mul_(-1);
      for (std::int64_t i = span.begin; i < span.begin + span.length; ++i)
        changed.pack.token_ids[i] =
            static_cast<std::int32_t>(drafter_.config().vocab_size - 1 - only.pack.token_ids[i]);
    }
    return drafter_.objective(frozen_, changed.batch(), objective_options(false)).loss_sum;
  }

  void compare_with_definitions(const RandomBatch& in, const Outcome& ours) {
    SmokePass figures = begin("packed, by definitions", in);
    const OnDefinitions definitions;
    PassTimes times;
    const Outcome exact = outcome_of(in, &times);
    end(std::move(figures), exact.sums, times);
    const double bound = drafter_.place().compute == at::kBFloat16 ? kBFloat16Bound : kFloatBound;
    const double forward = difference(ours.hidden, exact.hidden),
                 backward = difference(ours.taps_gradient, exact.taps_gradient);
    check("kernels as their definitions, forward", forward <= bound, text_of(forward, " of ", bound));
    check("kernels as their definitions, backward", backward <= bound, text_of(backward, " of ", bound));
  }

  Drafter& drafter_;
  const Frozen& frozen_;
  const RunConfig& config_;
  const SmokeOptions& options_;
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
  if (options.notice) options.notice("making parameters and head");
  const Place place = place_of(config.train.compute);
  const std::unique_ptr<Drafter> made = random_drafter(drafter, place, place.compute, config.seed);
  return smoke(*made, random_frozen(drafter, place, 0.02, config.seed), config, options);
}

SmokeReport smoke(Drafter& drafter, const Frozen& frozen, const RunConfig& config, const SmokeOptions& options) {
  require(options.row_tokens == 0 || options.row_tokens >= 16, "a pack of ", options.row_tokens,
          " tokens is too short for four documents; give at least 16");
  return Smoke(drafter, frozen, config, options).run();
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
