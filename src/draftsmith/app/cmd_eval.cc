// `draftsmith eval`: held-out prompts, decoded with and without the drafter.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "draftsmith/app/choice_option.h"
#include "draftsmith/app/commands.h"
#include "draftsmith/app/drafter_paths.h"
#include "draftsmith/app/open_target.h"
#include "draftsmith/app/terminal.h"
#include "draftsmith/base/check.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/decode/evaluate.h"
#include "draftsmith/decode/report.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/run/checkpoint.h"
#include "draftsmith/run/plot.h"
#include "draftsmith/store/files.h"
#include "draftsmith/text/tokenizer.h"

namespace draftsmith {
namespace {

struct EvalArguments {
  std::string drafter, model, data, json, requests;
  Compute compute = Compute::kBFloat16;
  std::int64_t prompts = -1, max_new_tokens = -1, threads = 0;  // -1: as the run's recipe says
  bool quiet = false;
};

std::string data_path(const EvalArguments& arguments) {
  if (!arguments.data.empty()) return arguments.data;
  const auto run = find_run_config(arguments.drafter);
  if (!run)
    throw UsageError(
        "--data is missing: the drafter's folder does not say which data it was trained on; give a folder that "
        "`draftsmith prepare` wrote");
  return run->data.path;
}

// Writes one line for each request: the prompt as text and ids, and what plain decoding said. Other programs decode the
// same prompts with it (tools/llama_tau.py).
void write_requests(const std::string& file, const EvalReport& report, const DataSet& data,
                    const Tokenizer& tokenizer) {
  std::string lines;
  for (const RequestReport& request : report.requests) {
    const auto prompt = data.tokens_of(request.document).first(static_cast<std::size_t>(request.prompt_tokens));
    lines += nlohmann::json{{"text", tokenizer.decode(prompt, true)},
                            {"ids", std::vector<std::int32_t>(prompt.begin(), prompt.end())},
                            {"kind", request.kind},
                            {"first", tokenizer.piece(request.plain.tokens.front(), true)},
                            {"plain", request.plain.tokens},
                            {"margins", request.plain_margins}}
                 .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
             "\n";
  }
  write_text_file(file, lines);
}

// Draws the run's plot again, with the tau that was measured at this checkpoint.
void add_to_plot(const std::filesystem::path& checkpoint, const EvalReport& report) {
  const auto output = std::filesystem::absolute(checkpoint).parent_path().parent_path();
  if (!std::filesystem::exists(checkpoint / "state.json") || !std::filesystem::exists(output / "metrics.jsonl")) return;
  const double tau = report.all.acceptance.tau_over_steps();
  const PlotOptions options{
      .title = "Drafter for " + report.target,
      .points = {{read_train_state(checkpoint).seconds / 60, tau, fmt::format("tau {:.2f}", tau)}}};
  fmt::print("plot: {}\n", write_plot(output, options).string());
}

void run(const EvalArguments& arguments) {
  Terminal terminal(arguments.quiet ? Terminal::Mode::kQuiet : Terminal::Mode::kAuto);
  const auto folder = find_drafter_folder(arguments.drafter);
  const LoadedDrafter drafter = read_drafter_folder(folder);
  const DataSet prompts = read_data_folder(data_path(arguments)).eval;
  const auto model = target_path(arguments.model, folder);
  const auto tokenizer = tokenizer_of(model, prompts, terminal.notices());
  const auto target = open_target({.model = model, .threads = arguments.threads, .compute = arguments.compute});
  const EvalConfig defaults = find_run_config(arguments.drafter).value_or(RunConfig()).eval;
  EvalOptions options;
  options.prompts = arguments.prompts >= 0 ? arguments.prompts : defaults.prompts;
  options.max_new_tokens = arguments.max_new_tokens > 0 ? arguments.max_new_tokens : defaults.max_new_tokens;
  options.place = place_of(arguments.compute);
  const EvalReport report = evaluate(*target, drafter, prompts, options, terminal.progress("decoding"));
  terminal.finish();
  if (!arguments.json.empty()) write_text_file(arguments.json, eval_report_json(report));
  if (!arguments.requests.empty()) write_requests(arguments.requests, report, prompts, *tokenizer);
  std::fputs(eval_report_table(report).c_str(), stdout);
  add_to_plot(folder, report);
  require(report.lossless(), "decoding with the drafter changed the target's output in ", report.num_failures,
          " requests (", report.num_ties,
          " ties); this is a fault of the program: please report it with the output of `draftsmith env`");
}

}  // namespace

void add_eval(CLI::App& app) {
  auto arguments = std::make_shared<EvalArguments>();
  auto* command = app.add_subcommand(
      "eval", "Measure a drafter: acceptance length (tau), acceptance per slot, speed, losslessness");
  command->add_option("--drafter", arguments->drafter, "drafter to measure: run folder, checkpoint or drafter folder")
      ->required();
  command->add_option("--model", arguments->model,
                      "GGUF file of the target (default: the one that the drafter was trained for)");
  command->add_option("--data", arguments->data,
                      "folder of prepared data, whose eval.safetensors is used (default: the run's)");
  command->add_option("--prompts", arguments->prompts,
                      "number of held-out prompts; 0 = all (default: the run's eval.prompts, else 40)");
  command
      ->add_option("--max-new-tokens", arguments->max_new_tokens,
                   "largest number of new tokens for a prompt (default: the run's, else 128)")
      ->check(CLI::Range(1, 1 << 20));
  add_choice(*command, "--compute", arguments->compute, "type of the drafter's matrix products: ");
  command->add_option("--threads", arguments->threads, "CPU threads; 0 = all cores")->capture_default_str();
  command->add_option("--json", arguments->json, "file to write the whole report to");
  command->add_option("--write-requests", arguments->requests,
                      "file to write prompts and plain answers to, as JSON lines");
  command->add_flag("--quiet", arguments->quiet, "show no progress");
  command->footer(
      "tau, the acceptance length, is the mean number of tokens that a pass of the target produces (accepted drafts + "
      "1);\n"
      "1 is no gain.\n"
      "Example:\n  draftsmith eval --drafter runs/smollm2 --prompts 40 --json eval.json");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace draftsmith
