// `draftsmith export`: a drafter for other programs.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "draftsmith/app/commands.h"
#include "draftsmith/app/drafter_paths.h"
#include "draftsmith/base/check.h"
#include "draftsmith/export/gguf_file.h"
#include "draftsmith/export/hf_folder.h"

namespace draftsmith {
namespace {

struct ExportArguments {
  std::string to, drafter, output, model;
  std::string dtype = "bf16";
};

void run(const ExportArguments& arguments) {
  const auto folder = find_drafter_folder(arguments.drafter);
  const StoredType type = stored_type_from_text(arguments.dtype);
  const LoadedDrafter drafter = read_drafter_folder(folder);
  if (arguments.to == "hf") {
    export_hf(drafter, arguments.output, type);
    std::printf("%s: drafter in z-lab's layout (%s)\n  z-lab, SGLang and vLLM load this folder\n",
                arguments.output.c_str(), arguments.dtype.c_str());
    return;
  }
  const auto model = target_path(arguments.model, folder);
  export_gguf(drafter, model, arguments.output, type);
  std::printf(
      "%s: drafter for llama.cpp (%s)\n  llama-speculative-simple -m %s -md %s --spec-type draft-dflash "
      "--spec-draft-n-max %ld\n",
      arguments.output.c_str(), arguments.dtype.c_str(), model.c_str(), arguments.output.c_str(),
      static_cast<long>(drafter.config.block_size - 1));
}

}  // namespace

void add_export(CLI::App& app) {
  auto arguments = std::make_shared<ExportArguments>();
  auto* command = app.add_subcommand("export", "Write a drafter for llama.cpp (gguf) or for z-lab, SGLang, vLLM (hf)");
  command->add_option("--to", arguments->to, "hf or gguf")->required()->check(CLI::IsMember({"hf", "gguf"}));
  command->add_option("--drafter", arguments->drafter, "run folder, checkpoint or drafter folder")->required();
  command->add_option("--output", arguments->output, "folder (hf) or file (gguf) to write")->required();
  command->add_option("--dtype", arguments->dtype, "stored type: bf16 or f32")->capture_default_str();
  command->add_option("--model", arguments->model, "gguf: the target, whose tokenizer is copied (default: the run's)");
  command->footer(
      "Examples:\n"
      "  draftsmith export --to gguf --drafter runs/smollm2 --output drafter.gguf\n"
      "  draftsmith export --to hf --drafter runs/smollm2 --output drafter-hf --dtype f32");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace draftsmith
