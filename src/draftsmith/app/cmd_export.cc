// `draftsmith export`: a drafter for other programs.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <string>

#include "draftsmith/app/commands.h"
#include "draftsmith/app/drafter_paths.h"
#include "draftsmith/base/check.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/draft/target_fit.h"
#include "draftsmith/export/gguf_file.h"
#include "draftsmith/export/hf_folder.h"
#include "draftsmith/target/open.h"

namespace draftsmith {
namespace {

struct ExportArguments {
  std::string to, drafter, output, model;
  std::string dtype = "bf16";
};

// The rows of the target's head that a smaller draft vocabulary needs; undefined when the vocabulary is whole.
at::Tensor head_rows(const ExportArguments& arguments, const LoadedDrafter& drafter) {
  if (drafter.vocab.whole()) return {};
  const auto model = target_path(arguments.model, find_drafter_folder(arguments.drafter));
  const auto [tensor, head] = read_head(model);
  check_fits_target(drafter.config(), {.name = text_of(model.string(), " (tensor '", tensor, "')"),
                                       .hidden_size = head.size(1),
                                       .num_layers = std::nullopt,
                                       .vocab_size = head.size(0),
                                       .num_tokens = head.size(0)});
  return draft_head(head, drafter.vocab);
}

void run(const ExportArguments& arguments) {
  const auto folder = find_drafter_folder(arguments.drafter);
  const StoredType type = stored_type_from_text(arguments.dtype);
  const LoadedDrafter drafter = read_drafter_folder(folder);
  const at::Tensor head = head_rows(arguments, drafter);
  if (arguments.to == "hf") {
    export_hf(drafter, arguments.output, type, head);
    fmt::print("{}: drafter in z-lab's layout ({})\n  z-lab, SGLang and vLLM load this folder\n", arguments.output,
               arguments.dtype);
    if (!drafter.vocab.whole())
      fmt::print(
          "  it drafts from {} ids (d2t), which vLLM reads; z-lab's code and SGLang draft from all ids, so they accept "
          "fewer drafts:\n  train with draft.vocab_size: 0 for those\n",
          drafter.vocab.ids.size());
    return;
  }
  const auto model = target_path(arguments.model, folder);
  export_gguf(drafter, model, arguments.output, type, head);
  fmt::print(
      "{0}: drafter for llama.cpp ({1})\n  llama-speculative-simple -m {2} -md {0} --spec-type draft-dflash "
      "--spec-draft-n-max {3}\n",
      arguments.output, arguments.dtype, model.string(), drafter.drafter->max_drafts());
}

}  // namespace

void add_export(CLI::App& app) {
  auto arguments = std::make_shared<ExportArguments>();
  auto* command = app.add_subcommand("export", "Write a drafter for llama.cpp (gguf) or for z-lab, SGLang, vLLM (hf)");
  command->add_option("--to", arguments->to, "format: hf or gguf")->required()->check(CLI::IsMember({"hf", "gguf"}));
  command->add_option("--drafter", arguments->drafter, "drafter to export: run folder, checkpoint or drafter folder")
      ->required();
  command->add_option("--output", arguments->output, "folder (hf) or file (gguf) to write")->required();
  command->add_option("--dtype", arguments->dtype, "type of the stored matrices: bf16 or f32 (gguf also f16)")
      ->capture_default_str();
  command->add_option(
      "--model", arguments->model,
      "GGUF file of the target, whose tokenizer (gguf) and head rows (smaller draft vocabulary) are copied "
      "(default: the run's)");
  command->footer(
      "Examples:\n"
      "  draftsmith export --to gguf --drafter runs/smollm2 --output drafter.gguf\n"
      "  draftsmith export --to hf --drafter runs/smollm2 --output drafter-hf --dtype f32");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace draftsmith
