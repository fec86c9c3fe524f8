// `draftsmith inspect`: says what a file or folder is.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "draftsmith/app/commands.h"
#include "draftsmith/app/drafter_paths.h"
#include "draftsmith/base/check.h"
#include "draftsmith/base/words.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/run/checkpoint.h"
#include "draftsmith/store/gguf.h"
#include "draftsmith/store/safetensors.h"

namespace draftsmith {
namespace fs = std::filesystem;
namespace {

void row(const std::string& name, const std::string& value) { fmt::print("  {:<22} {}\n", name, value); }

template <class List>
std::string joined(const List& list) {
  std::string text;
  for (const auto& item : list) text += (text.empty() ? "" : ", ") + text_of(item);
  return "[" + text + "]";
}

// ---- GGUF -----------------------------------------------------------------------------------------------------

std::string value_text(const GgufValue& value) {
  struct Text {
    std::string operator()(const std::string& s) const { return s.size() > 60 ? s.substr(0, 57) + "..." : s; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(std::int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const { return fmt::format("{:g}", d); }
    std::string operator()(const std::vector<std::string>& v) const { return std::to_string(v.size()) + " strings"; }
    std::string operator()(const std::vector<std::int64_t>& v) const {
      return v.size() <= 16 ? joined(v) : std::to_string(v.size()) + " integers";
    }
    std::string operator()(const std::vector<double>& v) const {
      return v.size() <= 16 ? joined(v) : std::to_string(v.size()) + " numbers";
    }
  };
  std::string text = std::visit(Text{}, value);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void inspect_gguf(const fs::path& path, bool all_tensors) {
  const GgufFile file = read_gguf(path);
  const bool drafter = file.architecture() == "dflash";
  fmt::print("{}: GGUF version {}, {}\n", path.string(), file.version,
             drafter ? "a DFlash drafter for llama.cpp" : "a model that can be a target if llama.cpp runs it");
  std::map<std::string, std::int64_t> types;
  double parameters = 0, bytes = 0;
  for (const auto& tensor : file.tensors) {
    ++types[tensor.type_name];
    double elements = 1;
    for (const auto size : tensor.shape) elements *= static_cast<double>(size);
    parameters += elements;
    bytes += static_cast<double>(tensor.num_bytes);
  }
  std::string kinds;
  for (const auto& [name, count] : types) kinds += (kinds.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  row("parameters", count_text(parameters));
  row("tensors", fmt::format("{} ({}), {}B", file.tensors.size(), kinds, count_text(bytes)));
  if (!drafter) row("head", file.find_tensor("output.weight") ? "output.weight" : "tied to the embedding");
  for (const auto& [key, value] : file.keys) row(key, value_text(value));
  if (!all_tensors) return;
  for (const auto& tensor : file.tensors) row(tensor.name, tensor.type_name + "  " + shape_text(tensor.shape));
}

// ---- drafters and checkpoints -----------------------------------------------------------------------------------

void inspect_drafter(const fs::path& folder, bool all_tensors) {
  const LoadedDrafter drafter = read_drafter_folder(folder);
  const DrafterConfig& c = drafter.config();
  const std::int64_t parameters = num_parameters(*drafter.drafter);
  const bool checkpoint = fs::exists(folder / "state.json");
  fmt::print("{}: {}\n", folder.string(), checkpoint ? "a checkpoint (it is also a loadable drafter)" : "a drafter");
  row("family", name_of(c.family));
  row("parameters", fmt::format("{} ({})", count_text(static_cast<double>(parameters)), parameters));
  row("layers", fmt::format("{}, hidden {}, MLP {}", c.num_layers, c.hidden_size, c.intermediate_size));
  row("heads", fmt::format("{} query, {} key/value, of {}", c.num_heads, c.num_kv_heads, c.head_dim));
  row("block size", fmt::format("{} (up to {} drafts a pass)", c.block_size, drafter.drafter->max_drafts()));
  row("taps", fmt::format("{} of {} target layers", joined(c.target_layer_ids), c.num_target_layers));
  row("mask token", fmt::format("{}, vocabulary {}", c.mask_token_id, c.vocab_size));
  if (c.draft_vocab_size > 0) row("drafts from", fmt::format("{} ids (d2t)", c.draft_vocab_size));
  row("rope base", fmt::format("{:g}, norm epsilon {:g}", c.rope_theta, c.norm_eps));
  const auto sliding = std::count(c.layer_kinds.begin(), c.layer_kinds.end(), LayerKind::kSliding);
  row("sliding layers", sliding == 0 ? "none" : fmt::format("{}, window {}", sliding, c.sliding_window));
  if (checkpoint) {
    const TrainState state = read_train_state(folder);
    row("step", fmt::format("{} of {}", state.step, state.total_steps ? std::to_string(state.total_steps) : "?"));
    row("trained", fmt::format("{} tokens in {}, epoch {}", count_text(static_cast<double>(state.tokens)),
                               duration_text(state.seconds), state.epoch));
    row("target", state.target);
    row("seed", std::to_string(state.seed));
  }
  if (!all_tensors) return;
  for (const Param& param : drafter.drafter->params()) row(param.name, shape_text(param.tensor.sizes()));
}

// ---- data -------------------------------------------------------------------------------------------------------

void inspect_data_set(const std::string& name, const DataSet& data) {
  std::int64_t supervised = 0, longest = 0;
  for (const auto m : data.loss_mask) supervised += m;
  std::map<std::string, std::int64_t> kinds;
  for (std::int64_t d = 0; d < data.num_documents(); ++d) {
    longest = std::max(longest, data.length(d));
    if (!data.kind.empty()) ++kinds[data.kind_of(d)];
  }
  row(name, fmt::format("{} documents, {} tokens, {} supervised, longest {}", data.num_documents(), data.num_tokens(),
                        supervised, longest));
  for (const auto& [kind, count] : kinds) row("  " + kind, std::to_string(count));
}

void inspect_data_folder(const fs::path& folder) {
  const DataFolder data = read_data_folder(folder);
  fmt::print("{}: prepared data\n", folder.string());
  inspect_data_set("train", data.train);
  inspect_data_set("eval", data.eval);
  row("tokenizer digest", data.train.tokenizer_digest);
  row("template digest", data.train.template_digest);
}

void inspect_safetensors(const fs::path& path) {
  const SafetensorsFile file(path);
  fmt::print("{}: safetensors, {} tensors\n", path.string(), file.tensors().size());
  for (const auto& [key, value] : file.metadata()) row(key, value.size() > 80 ? value.substr(0, 77) + "..." : value);
  for (const auto& [name, info] : file.tensors()) row(name, name_of(info.dtype) + "  " + shape_text(info.shape));
}

void run(const fs::path& path, bool all_tensors) {
  require(fs::exists(path), path.string(), " does not exist");
  if (fs::is_directory(path)) {
    if (fs::exists(path / "train.safetensors")) return inspect_data_folder(path);
    return inspect_drafter(find_drafter_folder(path), all_tensors);
  }
  if (path.extension() == ".safetensors") return inspect_safetensors(path);
  inspect_gguf(path, all_tensors);
}

}  // namespace

void add_inspect(CLI::App& app) {
  struct Arguments {
    std::string path;
    bool tensors = false;
  };
  auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("inspect", "Explain a GGUF file, a drafter, a checkpoint or prepared data");
  command->add_option("path", arguments->path, "file or folder to explain")->required();
  command->add_flag("--tensors", arguments->tensors, "list every tensor");
  command->footer(
      "Examples:\n  draftsmith inspect model.gguf\n  draftsmith inspect runs/smollm2\n  draftsmith inspect "
      "data/smollm2");
  command->callback([arguments] { run(arguments->path, arguments->tensors); });
}

}  // namespace draftsmith
