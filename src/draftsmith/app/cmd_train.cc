// `draftsmith train`: from a recipe to checkpoints.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "draftsmith/app/commands.h"
#include "draftsmith/app/open_target.h"
#include "draftsmith/app/terminal.h"
#include "draftsmith/base/check.h"
#include "draftsmith/base/memory.h"
#include "draftsmith/base/words.h"
#include "draftsmith/config/yaml.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/draft/recipe.h"
#include "draftsmith/ranks/ranks.h"
#include "draftsmith/run/plan.h"
#include "draftsmith/run/training_run.h"
#include "draftsmith/text/mask_token.h"

namespace draftsmith {
namespace {

struct TrainArguments {
  std::string recipe;
  std::vector<std::string> assignments;
  bool print_config = false, dry_run = false, resume = false, quiet = false;
};

volatile std::sig_atomic_t g_stop_requested = 0;

// The first Ctrl-C (or SIGTERM, or a closed terminal) asks the trainer to save and stop; the second ends the process
// as usual.
void stop_on_signals() {
  const auto handler = [](int signal) {
    g_stop_requested = 1;
    std::signal(signal, SIG_DFL);
  };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, handler);
}

void print_summary(const TrainSummary& summary) {
  fmt::print("steps          {} of {} in {}\n", summary.steps, summary.total_steps,
             duration_text(summary.minutes * 60));
  fmt::print("last window    loss {:.3f}, accuracy {:.3f}, accepted length {:.3f}\n", summary.loss, summary.accuracy,
             summary.accepted_length);
  if (summary.eval_loss > 0)
    fmt::print("held out       loss {:.3f}, accuracy {:.3f}, accepted length {:.3f}\n", summary.eval_loss,
               summary.eval_accuracy, summary.eval_accepted_length);
  fmt::print("checkpoint     {}\n", summary.checkpoint.string());
  fmt::print("next           draftsmith eval --drafter {}\n", summary.checkpoint.string());
}

void run(const TrainArguments& arguments) {
  const RunConfig config = read_run_config(arguments.recipe, arguments.assignments);
  if (arguments.print_config) {
    std::fputs(run_config_to_yaml(config).c_str(), stdout);
    return;
  }
  Terminal terminal(arguments.quiet ? Terminal::Mode::kQuiet : Terminal::Mode::kAuto);
  const DataFolder data = read_data_folder(config.data.path);
  const auto tokenizer = tokenizer_of(config.model.path, data.train, terminal.notices());
  const LlamaOptions llama{
      .feature_weights = arguments.dry_run ? FeatureWeights::kNative : config.model.feature_weights,
      .copy_folder = config.output};
  const auto target = open_target({.model = config.model.path,
                                   .threads = config.threads,
                                   .compute = config.train.compute,
                                   .notice = terminal.notices(),
                                   .llama = llama});
  const MaskTokenChoice mask = choose_mask_token(*tokenizer, config.draft.mask_token_id, target->info().vocab_size);
  if (!mask.why.empty()) terminal.notice("note: " + mask.why);
  const DrafterConfig drafter = resolve_drafter_config(config, target->info(), mask.id);
  if (arguments.dry_run) {
    const TrainPlan plan = plan_training(config, target->info(), data, drafter);
    const std::int64_t bytes = process_bytes(plan, config, *target, data.train);
    std::fputs(to_text(plan, config).c_str(), stdout);
    fmt::print("in all    {} with the program and the target\n", gigabytes_text(bytes));
    return;
  }
  reset_peak_memory();
  stop_on_signals();
  const TrainHooks hooks{.progress = terminal.progress("training"), .notice = terminal.notices(), .stop_requested = [] {
                           return g_stop_requested != 0;
                         }};
  Alone ranks;
  const TrainSummary summary = train({.config = config,
                                      .target = *target,
                                      .data = data,
                                      .drafter = drafter,
                                      .ranks = ranks,
                                      .resume = arguments.resume},
                                     hooks);
  terminal.finish();
  print_summary(summary);
  fmt::print("peak memory    {}\n", gigabytes_text(peak_resident_bytes()));
  require(!summary.stopped_early, "training stopped on request after step ", summary.steps,
          "; go on with: draftsmith train ", config.output, "/run.yaml --resume");
}

}  // namespace

void add_train(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  auto* command = app.add_subcommand("train", "Train a drafter for a target, as a recipe says");
  command->add_option("recipe", arguments->recipe, "YAML file with the settings of the run; recipes/ has examples")
      ->required();
  command
      ->add_option("--set", arguments->assignments,
                   "section.key=value replaces the recipe's value; may be given many times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--print-config", arguments->print_config,
                    "print the complete configuration (0 = taken from the target) and exit");
  command->add_flag("--dry-run", arguments->dry_run,
                    "check recipe, data and target, print the plan and the memory that the run needs, and exit");
  command->add_flag("--resume", arguments->resume, "continue from the newest checkpoint in the run's folder");
  command->add_flag("--quiet", arguments->quiet, "show no progress");
  command->footer(
      "Keys of a recipe (with their defaults):\n" + run_config_help() +
      "\nExamples:\n"
      "  draftsmith train recipes/own.yaml --set model.path=model.gguf --set data.path=data/mine --dry-run\n"
      "  draftsmith train recipes/smollm2.yaml --set train.max_minutes=15 --set output=runs/short\n"
      "  draftsmith train runs/smollm2/run.yaml --resume");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace draftsmith
