#include "draftsmith/app/drafter_paths.h"

#include "draftsmith/app/terminal.h"
#include "draftsmith/base/check.h"
#include "draftsmith/config/yaml.h"
#include "draftsmith/run/checkpoint.h"

namespace draftsmith {

namespace fs = std::filesystem;

namespace {

constexpr const char* kRunFile = "run.yaml";

}  // namespace

fs::path find_drafter_folder(const fs::path& path) {
  require(fs::exists(path), path.string(), " does not exist; give a drafter folder, a checkpoint or a run's folder");
  require(fs::is_directory(path), path.string(),
          " is a file; give a drafter folder (config.json, model.safetensors), a checkpoint or a run's folder");
  if (fs::exists(path / "config.json")) return path;
  Terminal terminal;
  const auto checkpoint = latest_checkpoint(path, terminal.notices());
  require(checkpoint.has_value(), path.string(),
          " holds neither a drafter (config.json) nor checkpoints; give a folder in which `draftsmith train` has saved "
          "one");
  return *checkpoint;
}

std::optional<RunConfig> find_run_config(const fs::path& drafter) {
  const fs::path here = fs::absolute(drafter);
  for (const fs::path& folder : {here, here.parent_path(), here.parent_path().parent_path()}) {
    if (fs::exists(folder / kRunFile)) return read_run_config(folder / kRunFile, {});
  }
  return std::nullopt;
}

fs::path target_path(const std::string& given, const fs::path& drafter) {
  if (!given.empty()) return given;
  const auto run = find_run_config(drafter);
  if (!run) {
    throw UsageError(text_of("--model is missing, and ", drafter.string(),
                             " does not say which target it was trained for; give it"));
  }
  return run->model.path;
}

}  // namespace draftsmith
