#include "draftsmith/run/run_folder.h"

#include "draftsmith/config/yaml.h"
#include "draftsmith/run/plot.h"

namespace draftsmith {

RunFolder::RunFolder(const std::filesystem::path& output) : output_(output) {
  require_writable_folder(output);
  lock_.emplace(output);
  require_writable_folder(output / "checkpoints");
}

void RunFolder::open_metrics(std::int64_t done_steps) { metrics_.emplace(output_, done_steps); }

void RunFolder::write_run_yaml(const RunConfig& resolved) const {
  write_text_file(output_ / "run.yaml", run_config_to_yaml(resolved));
}

void RunFolder::plot(const std::string& title) const { write_plot(output_, {.title = title}); }

}  // namespace draftsmith
