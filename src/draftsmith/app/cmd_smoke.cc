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
    throw UsageError("--anchors belongs to --rows: give the tokens of the row too");
  set_threads(config.threads);
  Terminal terminal(arguments.quiet ? Terminal::Mode::kQuiet : Terminal::Mode::kAuto);
  const DrafterConfig drafter = drafter_config_without_target(config);
  const SmokeReport report = smoke(
      config, drafter, {.row_tokens = arguments.rows, .anchors = arguments.anchors, .notice = terminal.notices()});
  std::fputs(to_text(report).c_str(), stdout);
  std::fflush(stdout);
  require(report.all_ok(), "the drafter of ", arguments.recipe, " failed a check; see the lines FAILED above");
}

}  // namespace

void add_smoke(CLI::App& app) {
  auto arguments = std::make_shared<SmokeArguments>();
  auto* command =
      app.add_subcommand("smoke", "Run a recipe's drafter on random numbers: does it compute, and in what time");
  command->add_option("--recipe", arguments->recipe, "YAML file that gives every size; no model is read")
      ->capture_default_str();
  command->add_option("--set", arguments->assignments, "section.key=value over the recipe; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--rows", arguments->rows, "tokens of one long row, instead of two small ones")
      ->check(CLI::Range(16, 1 << 20));
  command->add_option("--anchors", arguments->anchors, "most anchors in it (default: every valid one)")
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--quiet", arguments->quiet, "no progress");
  command->footer(
      "Forward and backward at full width on random numbers: finite losses and gradients, nothing across documents,\n"
      "kernels against their definitions; times and memory of each pass (no optimizer; train --dry-run gives a "
      "run's).\n"
      "--rows computes layers again on the way back, whatever the recipe says.\n"
      "recipes/seed.yaml takes about 4 minutes on two cores, and 11 GiB.\n"
      "Examples:\n"
      "  draftsmith smoke\n"
      "  draftsmith smoke --rows 8192 --anchors 512\n"
      "  draftsmith smoke --recipe my.yaml --set draft.layers=8");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace draftsmith
