#include "draftsmith/target/open.h"

#include <system_error>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

bool is_no_folder(const fs::path& path) {
  std::error_code ignored;  // a path that cannot be looked at is refused when it is opened
  return !fs::is_directory(path, ignored);
}

struct Engine {
  bool (*reads)(const fs::path& path);
  std::unique_ptr<Target> (*open)(const fs::path& path, const TargetOptions& options, const LlamaOptions& llama);
  TargetHead (*read_head)(const fs::path& path);
};

constexpr Engine kEngines[] = {
    {is_no_folder, load_gguf_target, read_gguf_head},
};

const Engine& engine_of(const fs::path& path) {
  for (const Engine& engine : kEngines)
    if (engine.reads(path)) return engine;
  fail(
      path.string(),
      ": is a folder, and folders of Hugging Face (safetensors) are not supported as targets yet; convert the model to "
      "GGUF with llama.cpp's convert_hf_to_gguf.py and give that file");
}

}  // namespace

void check_target_path(const fs::path& file_or_folder) { engine_of(file_or_folder); }

std::unique_ptr<Target> open_target(const fs::path& file_or_folder, const TargetOptions& options,
                                    const LlamaOptions& llama) {
  return engine_of(file_or_folder).open(file_or_folder, options, llama);
}

TargetHead read_head(const fs::path& file_or_folder) { return engine_of(file_or_folder).read_head(file_or_folder); }

}  // namespace draftsmith
