#include "draftsmith/export/hf_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/families.h"
#include "draftsmith/nn/tensor_io.h"
#include "draftsmith/store/files.h"
#include "draftsmith/store/safetensors.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

bool is_export_file(const std::string& name) {
  return name == "config.json" || name == "model.safetensors.index.json" ||
         (name.starts_with("model") && name.ends_with(".safetensors"));
}

bool is_drafter_config(const fs::path& file) {
  const auto json =
      nlohmann::json::parse(read_text_file(file, std::size_t{1} << 24), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  const auto found = json.find("architectures");
  return found != json.end() && found->is_array() && !found->empty() && found->front().is_string() &&
         family_of_architecture(found->front().get<std::string>()).has_value();
}

// Replacing a folder deletes what is in it, so only a folder that an export could have written is replaced.
void require_replaceable(const fs::path& folder) {
  if (!fs::exists(fs::symlink_status(folder))) return;
  require(fs::is_directory(folder), folder.string(), " exists and is no folder; choose another output");
  bool empty = true;
  for (const auto& entry : fs::directory_iterator(folder)) {
    empty = false;
    const std::string name = entry.path().filename().string();
    require(entry.is_regular_file() && is_export_file(name), folder.string(), " exists and holds ", name,
            ", which no export wrote; choose another output or move it away");
  }
  require(empty || (fs::is_regular_file(folder / "config.json") && is_drafter_config(folder / "config.json")),
          folder.string(), " exists and its config.json is not a drafter's; choose another output or move it away");
}

bool holds_others(const fs::path& folder, const std::vector<std::string>& names) {
  if (!fs::exists(folder)) return false;
  return std::any_of(fs::directory_iterator(folder), fs::directory_iterator(), [&](const fs::directory_entry& entry) {
    return std::find(names.begin(), names.end(), entry.path().filename().string()) == names.end();
  });
}

// write_folder() never deletes what the new folder lacks. Shards of an older export must go, so the new folder is made
// whole beside it and the two change places in one step.
void replace_folder(const fs::path& folder, const std::function<void(const fs::path&)>& fill) {
  const fs::path full = fs::absolute(folder);
  const fs::path beside =
      full.parent_path() / ("." + full.filename().string() + ".export-" + std::to_string(::getpid()));
  write_folder(beside, fill);
  const bool changed = ::renameat2(AT_FDCWD, beside.c_str(), AT_FDCWD, full.c_str(), RENAME_EXCHANGE) == 0;
  const int error = errno;
  std::error_code ignored;
  fs::remove_all(beside, ignored);
  require(changed, "cannot replace ", folder.string(), ": ", std::strerror(error), "; choose another output");
}

}  // namespace

void export_hf(const LoadedDrafter& drafter, const fs::path& folder, StoredType type, const at::Tensor& head) {
  require(type != StoredType::kFloat16,
          "a Hugging Face folder of a drafter cannot be stored as f16; choose bf16 or f32");
  check_drafter_config(drafter.config());
  // "out/" names the same folder as "out".
  const fs::path target = folder.has_filename() ? folder : folder.parent_path();
  require(!target.empty(), "the output folder of the export has no name; give one");
  require_replaceable(target);

  std::vector<at::Tensor> owners;
  std::vector<TensorToWrite> tensors;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    owners.push_back(to_stored(name, tensor, type));
    tensors.push_back({.name = name,
                       .dtype = type == StoredType::kFloat32 ? DType::kF32 : DType::kBF16,
                       .shape = tensor.sizes().vec(),
                       .bytes = bytes_of(owners.back())});
  };
  for (const Param& param : drafter.drafter->params()) add(param.name, param.tensor);
  if (!drafter.vocab.whole()) {
    check_draft_head(drafter, head);
    add("lm_head.weight", head);
    owners.push_back(draft_vocab_to_offsets(drafter.vocab));
    tensors.push_back(tensor_to_write(kDraftVocabTensor, owners.back()));
  }
  const std::string config =
      drafter_config_to_json(drafter.config(), type == StoredType::kFloat32 ? "float32" : "bfloat16");
  const auto fill = [&](const fs::path& temporary) {
    write_safetensors(temporary / "model.safetensors", tensors, {{"format", "pt"}});
    write_text_file(temporary / "config.json", config);
  };
  if (holds_others(target, {"model.safetensors", "config.json"})) {
    replace_folder(target, fill);
  } else {
    write_folder(target, fill);
  }
}

}  // namespace draftsmith
