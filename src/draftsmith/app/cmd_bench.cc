// `draftsmith bench`: how fast a training step and its head are on this machine.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "draftsmith/app/choice_option.h"
#include "draftsmith/app/commands.h"
#include "draftsmith/app/open_target.h"
#include "draftsmith/base/check.h"
#include "draftsmith/base/words.h"
#include "draftsmith/bench/measure_head.h"
#include "draftsmith/bench/measure_step.h"
#include "draftsmith/nn/attention.h"

namespace draftsmith {
namespace {

using Json = nlohmann::ordered_json;

// Thresholds: the largest share of a step that "rest" may take, how many times less memory than plain cross-entropy the
// head must take, and its largest time relative to the best chunks.
constexpr double kMostRest = 0.10, kLeastMemoryRatio = 20, kMostHeadTime = 1.0;

struct BenchArguments {
  std::string shape = "small", batch;
  Compute compute = Compute::kBFloat16;
  std::int64_t threads = 0, repeats = 5, row = 0, anchors = 0, hidden = 5120;
  bool recompute = false, json = false, serve = false;
  double bars = 0;
};

StepShape shape_of(const BenchArguments& arguments) {
  StepShape shape = step_shape(arguments.shape);
  if (arguments.row > 0) shape.row_tokens = arguments.row, shape.held_ratio = 0;
  if (arguments.anchors > 0) shape.anchors = arguments.anchors, shape.held_ratio = 0;
  return shape;
}

double part_flops(const StepFlops& flops, std::size_t part) {
  switch (static_cast<StepPart>(part)) {
    case StepPart::kProjections:
      return flops.projections;
    case StepPart::kAttention:
      return flops.attention;
    case StepPart::kMlp:
      return flops.mlp;
    case StepPart::kHead:
      return flops.head;
    case StepPart::kOptimizer:
      break;
  }
  return 0;
}

// Notes whether a threshold holds. --bars SHARE scales all thresholds, for machines that are not idle.
bool hold(Json& out, const char* name, double value, double bar, bool at_least) {
  const bool ok = at_least ? value >= bar : value <= bar;
  out["bars"].push_back({{"bar", name}, {"value", value}, {at_least ? "at_least" : "at_most", bar}, {"holds", ok}});
  return ok;
}

Json step_json(const StepResult& result, const BenchArguments& arguments) {
  Json out = {{"shape", result.shape.name},
              {"row_tokens", result.shape.row_tokens},
              {"anchors", result.shape.anchors},
              {"compute", name_of(arguments.compute)},
              {"threads", at::get_num_threads()},
              {"step_seconds", result.median.seconds},
              {"tokens_per_second", static_cast<double>(result.shape.row_tokens) / result.median.seconds},
              {"all_seconds", result.seconds},
              {"gflop", result.flops.total() / 1e9},
              {"gflop_per_second", result.flops.total() / result.median.seconds / 1e9},
              {"gemm_gflop_per_second", result.gemm_rate / 1e9},
              {"ratio_to_gemm", result.ratio()},
              {"extra_bytes", result.extra_bytes}};
  for (std::size_t part = 0; part < kNumStepParts; ++part)
    out["parts"][kStepPartNames[part]] = result.median.parts[part];
  out["parts"]["rest"] = result.median.rest();
  return out;
}

void print_step(const StepResult& result) {
  fmt::print("{}: pack of {} tokens, {} anchors of {}, {} threads\n", result.shape.name, result.shape.row_tokens,
             result.shape.anchors, result.shape.drafter.block_size, at::get_num_threads());
  fmt::print(
      "step          {:8.3f} s   {:.0f} tokens/s, {:.0f} GFLOP at {:.0f} GFLOP/s: {:.3f} of the GEMM rate ({:.0f})\n",
      result.median.seconds, static_cast<double>(result.shape.row_tokens) / result.median.seconds,
      result.flops.total() / 1e9, result.flops.total() / result.median.seconds / 1e9, result.ratio(),
      result.gemm_rate / 1e9);
  for (std::size_t part = 0; part < kNumStepParts; ++part) {
    const double seconds = result.median.parts[part], flops = part_flops(result.flops, part);
    fmt::print("  {:<12}{:8.3f} s  {:5.1f} %", kStepPartNames[part], seconds, 100 * seconds / result.median.seconds);
    if (flops > 0) fmt::print("   {:.2f} of the GEMM rate", flops / seconds / result.gemm_rate);
    fmt::print("\n");
  }
  fmt::print("  {:<12}{:8.3f} s  {:5.1f} %\n", "rest", result.median.rest(),
             100 * result.median.rest() / result.median.seconds);
  fmt::print("memory beyond parameters, gradients, moments, embedding and head: {}\n",
             gigabytes_text(result.extra_bytes));
}

// Does one step for every line on stdin, so that another program can take turns with us; the line "memory" asks for
// bytes.
void serve(const BenchArguments& arguments) {
  StepMeasure measure(shape_of(arguments), place_of(arguments.compute), arguments.recompute);
  if (!arguments.batch.empty()) measure.write_batch(arguments.batch);
  measure.step();
  fmt::print("{{\"ready\": true}}\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    Json out;
    if (line == "memory")
      out["extra_bytes"] = measure.extra_bytes();
    else
      out["seconds"] = measure.step().seconds;
    fmt::print("{}\n", out.dump());
    std::fflush(stdout);
  }
}

void run_step(const BenchArguments& arguments) {
  set_threads(arguments.threads);
  if (arguments.serve) return serve(arguments);
  const StepResult result =
      measure_step(shape_of(arguments), place_of(arguments.compute), arguments.recompute, arguments.repeats);
  Json out = step_json(result, arguments);
  bool ok = true;
  if (arguments.bars > 0 && result.shape.held_ratio > 0) {
    const bool held = attention_has_bf16_products() && arguments.compute == Compute::kBFloat16;
    ok = hold(out, "ratio_to_gemm", result.ratio(), result.shape.held_ratio * arguments.bars, true);
    ok &= hold(out, "rest", result.median.rest() / result.median.seconds, kMostRest / arguments.bars, false);
    out["bars_are_held"] = held;
    if (!held) ok = true;
  }
  if (arguments.json)
    fmt::print("{}\n", out.dump(2));
  else
    print_step(result);
  require(ok, "step '", result.shape.name,
          "' missed its performance thresholds; --json shows which; rerun on an idle machine");
}

// Measures a step, and its attention relative to the pairs that it has to see, for packs of 1k to 8k tokens with 64 to
// 512 anchors.
void run_growth(const BenchArguments& arguments) {
  set_threads(arguments.threads);
  fmt::print(
      "| pack | anchors | step, s | attention, s | pairs a head and layer, M | attention, ns a pair |\n"
      "| --- | --- | --- | --- | --- | --- |\n");
  for (const std::int64_t row : {1024, 2048, 4096, 8192}) {
    for (const std::int64_t anchors : {64, 128, 256, 512}) {
      StepShape shape = step_shape(arguments.shape);
      shape.row_tokens = row, shape.anchors = anchors;
      StepMeasure measure(shape, place_of(arguments.compute), arguments.recompute);
      measure.step();
      StepTime best = measure.step();
      for (std::int64_t i = 1; i < arguments.repeats; ++i) {
        const StepTime again = measure.step();
        if (again.seconds < best.seconds) best = again;
      }
      const double attention = best.parts[static_cast<std::size_t>(StepPart::kAttention)];
      const double pairs = measure.visible_pairs();
      const auto heads = static_cast<double>(shape.drafter.num_heads * shape.drafter.num_layers);
      fmt::print("| {} | {} | {:.3f} | {:.3f} | {:.3f} | {:.2f} |\n", row, anchors, best.seconds, attention,
                 pairs / 1e6, attention / (pairs * heads) * 1e9);
      std::fflush(stdout);
    }
  }
}

void run_head(const BenchArguments& arguments) {
  set_threads(arguments.threads);
  const HeadShape shape{.hidden = arguments.hidden};
  const std::vector<HeadTime> all = measure_head(shape, place_of(arguments.compute), arguments.repeats);
  Json out = {
      {"rows", shape.rows}, {"hidden", shape.hidden}, {"vocabulary", shape.vocab}, {"threads", at::get_num_threads()}};
  for (const HeadTime& time : all)
    out["ways"].push_back({{"name", time.name},
                           {"median_seconds", time.median()},
                           {"seconds", time.seconds},
                           {"extra_bytes", time.extra_bytes}});
  double best = all[2].median();
  for (std::size_t i = 2; i < all.size(); ++i) best = std::min(best, all[i].median());
  const double memory = static_cast<double>(all[1].extra_bytes) / static_cast<double>(all[0].extra_bytes);
  const double time = all[0].median() / best, share = arguments.bars > 0 ? arguments.bars : 1;
  bool ok = hold(out, "memory of plain cross-entropy to ours", memory, kLeastMemoryRatio * share, true);
  ok &= hold(out, "time of ours to the best chunks", time, kMostHeadTime / share, false);
  if (arguments.json) {
    fmt::print("{}\n", out.dump(2));
  } else {
    fmt::print("{} rows, hidden {}, vocabulary {}\n", shape.rows, shape.hidden, shape.vocab);
    for (const HeadTime& way : all)
      fmt::print("  {:<22}{:8.2f} s   {:6.0f} MB beyond inputs and head\n", way.name, way.median(),
                 static_cast<double>(way.extra_bytes) / 1e6);
    fmt::print("{:.1f} x less memory than plain cross-entropy; {:.2f} x the time of the best chunks\n", memory, time);
  }
  require(ok || arguments.bars <= 0,
          "the head missed its performance thresholds; --json shows which; rerun on an idle machine");
}

void add_common(CLI::App& command, BenchArguments& arguments) {
  add_choice(command, "--compute", arguments.compute);
  command.add_option("--threads", arguments.threads, "CPU threads; 0 = all cores")->capture_default_str();
  command.add_option("--repeats", arguments.repeats, "number of measured repeats")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void add_bars(CLI::App& command, BenchArguments& arguments) {
  command.add_flag("--json", arguments.json, "print all figures as JSON, with each threshold and whether it holds");
  command
      .add_option("--bars", arguments.bars,
                  "fail when a threshold is missed; thresholds are scaled by this factor (1 on an idle machine)")
      ->check(CLI::Range(0.0, 1.0));
}

void add_shape(CLI::App& command, BenchArguments& arguments) {
  command
      .add_option("--shape", arguments.shape,
                  "size of the drafter: small (576 wide, 3 layers) or mid (2048 wide, 5 layers, needs 8 GB)")
      ->capture_default_str();
  command.add_flag("--recompute", arguments.recompute, "recompute layers in the backward pass instead of keeping them");
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* command = app.add_subcommand("bench", "Measure a training step, or the head and loss, on random numbers");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  draftsmith bench step\n"
      "  draftsmith bench head --hidden 1024\n"
      "  draftsmith bench growth\n"
      "Each explains itself: draftsmith bench step --help");
  const auto add = [&](const char* name, const char* help, const char* examples, void (*run)(const BenchArguments&)) {
    auto arguments = std::make_shared<BenchArguments>();
    auto* sub = command->add_subcommand(name, help);
    add_common(*sub, *arguments);
    sub->footer(examples);
    sub->callback([arguments, run] { run(*arguments); });
    return std::pair(sub, arguments);
  };
  const auto [step, step_arguments] =
      add("step", "Measure time, operations and memory of one training step, by part",
          "Examples:\n  draftsmith bench step\n  draftsmith bench step --shape mid --json --bars 1", run_step);
  add_shape(*step, *step_arguments);
  add_bars(*step, *step_arguments);
  step->add_option("--row", step_arguments->row, "number of tokens in the pack, instead of the shape's")
      ->check(CLI::Range(16, 1 << 20));
  step->add_option("--anchors", step_arguments->anchors, "number of anchors in the pack, instead of the shape's")
      ->check(CLI::Range(1, 1 << 20));
  auto* serving = step->add_flag("--serve", step_arguments->serve,
                                 "do one step for each line on stdin, as tools/peer/step.py asks");
  step->add_option("--write-batch", step_arguments->batch, "with --serve: safetensors file to write the pack to")
      ->needs(serving);
  const auto [growth, growth_arguments] = add("growth", "Print how a step grows with pack length and number of anchors",
                                              "Example:\n  draftsmith bench growth", run_growth);
  add_shape(*growth, *growth_arguments);
  const auto [head, head_arguments] =
      add("head", "Compare head and loss with plain and chunked cross-entropy, for a vocabulary of 248,320",
          "Example:\n  draftsmith bench head --json --bars 1", run_head);
  head->add_option("--hidden", head_arguments->hidden, "width of the hidden states")
      ->check(CLI::Range(16, 1 << 16))
      ->capture_default_str();
  add_bars(*head, *head_arguments);
}

}  // namespace draftsmith
