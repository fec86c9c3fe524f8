// `draftsmith smoke`: a recipe's drafter on random numbers.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "draftsmith/app/commands.h"
#include "draftsmith/app/open_target.h"
#include "draftsmith/app/terminal.h"
#include "draftsmith/base/check.h"
#include "draftsmith/bench/smoke.h"
#include "draftsmith/config/yaml.h"

namespace draftsmith {
namespace {

struct SmokeArguments {
  std::string recipe = "recipes/seed.yaml";
  std::vector<std::string> assignments;
  std::int64_t rows = 0, anchors = 0;
  bool quiet = false;
};

void run(const SmokeArguments& arguments) {
  const RunConfig config = read_run_config(arguments.recipe, arguments.assignments);
  if (arguments.anchors > 0 && arguments.rows == 0)
    throw UsageError("--anchors needs --rows; give the number of tokens of the pack too");
  set_threads(config.threads);
  Terminal terminal(arguments.quiet ? Terminal::Mode::kQuiet : Terminal::Mode::kAuto);
  const DrafterConfig drafter = drafter_config_without_target(config);
  const SmokeReport report = smoke(
      config, drafter, {.row_tokens = arguments.rows, .anchors = arguments.anchors, .notice = terminal.notices()});
  std::fputs(to_text(report).c_str(), stdout);
  std::fflush(stdout);
  require(report.all_ok(), "the drafter of ", arguments.recipe,
          " failed a check; the lines with FAILED above say which");
}

}  // namespace

void add_smoke(CLI::App& app) {
  auto arguments = std::make_shared<SmokeArguments>();
  auto* command = app.add_subcommand(
      "smoke", "Run a recipe's drafter on random numbers, to see that it computes and how long it takes");
  command->add_option("--recipe", arguments->recipe, "YAML file that gives every size, since no model is read")
      ->capture_default_str();
  command
      ->add_option("--set", arguments->assignments,
                   "section.key=value replaces the recipe's value; may be given many times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--rows", arguments->rows, "run one pack of this many tokens instead of two small ones")
      ->check(CLI::Range(16, 1 << 20));
  command
      ->add_option("--anchors", arguments->anchors,
                   "with --rows: largest number of anchors in the pack (default: every valid one)")
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--quiet", arguments->quiet, "show no progress");
  command->footer(
      "Runs forward and backward at full width on random numbers. It checks that losses and gradients are finite, "
      "that\n"
      "no document reads another, and that the kernels agree with their definitions, and prints time and memory of "
      "each\n"
      "pass. There is no optimizer; train --dry-run says what a run needs.\n"
      "--rows recomputes layers in the backward pass, whatever the recipe says.\n"
      "recipes/seed.yaml takes about 4 minutes on two cores, and 11 GiB of memory.\n"
      "Examples:\n"
      "  draftsmith smoke\n"
      "  draftsmith smoke --rows 8192 --anchors 512\n"
      "  draftsmith smoke --recipe my.yaml --set draft.layers=8");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace draftsmith
