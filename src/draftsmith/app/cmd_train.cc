// `draftsmith train`: from a recipe to checkpoints.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "draftsmith/app/commands.h"
#include "draftsmith/app/open_target.h"
#include "draftsmith/app/terminal.h"
#include "draftsmith/base/check.h"
#include "draftsmith/config/yaml.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/train/plan.h"
#include "draftsmith/train/train.h"

namespace draftsmith {
namespace {

struct TrainArguments {
  std::string recipe;
  std::vector<std::string> assignments;
  bool print_config = false, dry_run = false, resume = false, quiet = false, allow_unfused = false;
};

volatile std::sig_atomic_t g_stop_requested = 0;

// The first Ctrl-C (or SIGTERM) asks the trainer to save and stop; the second ends the process as usual.
void stop_on_signals() {
  const auto handler = [](int signal) {
    g_stop_requested = 1;
    std::signal(signal, SIG_DFL);
  };
  std::signal(SIGINT, handler);
  std::signal(SIGTERM, handler);
}

void print_summary(const TrainSummary& summary) {
  std::printf("steps          %ld of %ld in %s\n", static_cast<long>(summary.steps),
              static_cast<long>(summary.total_steps), duration_text(summary.minutes * 60).c_str());
  std::printf("last window    loss %.3f, accuracy %.3f, accepted length %.3f\n", summary.loss, summary.accuracy,
              summary.accepted_length);
  std::printf("checkpoint     %s\n", summary.checkpoint.c_str());
  std::printf("next           draftsmith eval --drafter %s\n", summary.checkpoint.c_str());
}

void run(const TrainArguments& arguments) {
  const RunConfig config = read_run_config(arguments.recipe, arguments.assignments);
  if (arguments.print_config) {
    std::fputs(run_config_to_yaml(config).c_str(), stdout);
    return;
  }
  check_run_config(config);
  Terminal terminal(arguments.quiet ? Terminal::Mode::kQuiet : Terminal::Mode::kAuto);
  const DataFolder data = read_data_folder(config.data.path);
  const auto tokenizer = tokenizer_of(config.model.path, data.train, terminal.notices());
  const auto target = open_target({.model = config.model.path,
                                   .threads = config.threads,
                                   .compute = config.train.compute,
                                   .feature_weights = arguments.dry_run ? "native" : config.model.feature_weights,
                                   .copy_folder = config.output});
  const MaskTokenChoice mask = choose_mask_token(*tokenizer, config.draft.mask_token_id, target->info().vocab_size);
  if (!mask.why.empty()) terminal.notice("note: " + mask.why);
  const DrafterConfig drafter = resolve_drafter_config(config, target->info(), mask.id);
  if (arguments.dry_run) {
    std::fputs(to_text(plan_training(config, target->info(), data, drafter), config).c_str(), stdout);
    return;
  }
  stop_on_signals();
  TrainHooks hooks{.progress = terminal.progress("training"), .notice = terminal.notices(), .stop_requested = [] {
                     return g_stop_requested != 0;
                   }};
  if (arguments.allow_unfused) hooks.most_plain_score_bytes = std::numeric_limits<std::int64_t>::max();
  const TrainSummary summary = train(config, *target, data, drafter, arguments.resume, hooks);
  terminal.finish();
  print_summary(summary);
  require(!summary.stopped_early, "stopped on request after step ", summary.steps, "; go on with: draftsmith train ",
          arguments.recipe, " --resume");
}

}  // namespace

void add_train(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  auto* command = app.add_subcommand("train", "Train a drafter from a recipe");
  command->add_option("recipe", arguments->recipe, "YAML file; see recipes/")->required();
  command->add_option("--set", arguments->assignments, "section.key=value over the recipe; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--print-config", arguments->print_config, "print the resolved configuration and stop");
  command->add_flag("--dry-run", arguments->dry_run,
                    "check everything, print the plan and the memory it needs, and stop");
  command->add_flag("--resume", arguments->resume, "go on from the newest checkpoint of the run's folder");
  command->add_flag("--allow-unfused", arguments->allow_unfused,
                    "let plain attention compute more than 2 GiB of scores a layer");
  command->add_flag("--quiet", arguments->quiet, "no progress");
  command->footer("Keys of a recipe (with their defaults):\n" + run_config_help() +
                  "\nExamples:\n"
                  "  draftsmith train recipes/smollm2.yaml --dry-run\n"
                  "  draftsmith train recipes/smollm2.yaml --set train.max_minutes=15 --set output=runs/short\n"
                  "  draftsmith train recipes/smollm2.yaml --resume");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace draftsmith
