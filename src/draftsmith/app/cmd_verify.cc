// `draftsmith verify`: this build against numbers of the public implementations.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "draftsmith/app/commands.h"
#include "draftsmith/base/check.h"
#include "draftsmith/bench/golden.h"

namespace draftsmith {

void add_verify(CLI::App& app) {
  auto files = std::make_shared<std::vector<std::string>>();
  auto* command = app.add_subcommand("verify", "Check this build against golden numbers of the public implementations");
  command->add_option("files", *files, "golden files (.safetensors, with a .json beside each)")->required();
  command->footer(
      "Prints, as JSON, the largest relative error of mask, ids, hidden states, loss and every gradient. The exit code "
      "is\n"
      "1 when one is beyond its bound.\n"
      "Example:\n  draftsmith verify tests/golden/*.safetensors");
  command->callback([files] {
    std::vector<GoldenReport> reports;
    for (const auto& file : *files) reports.push_back(verify_golden(file));
    std::fputs(golden_reports_json(reports).c_str(), stdout);
    std::string failed;
    for (std::size_t i = 0; i < reports.size(); ++i) failed += reports[i].passed ? "" : " " + (*files)[i];
    require(failed.empty(), "these files are beyond their bounds:", failed, "; the printed errors say where");
  });
}

}  // namespace draftsmith
