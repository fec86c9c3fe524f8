#include "draftsmith/export/gguf_file.h"

#include <ATen/ops/tensor.h>
#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/target_fit.h"
#include "draftsmith/model/layer_names.h"
#include "draftsmith/store/gguf.h"
#include "draftsmith/store/whole_file.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

struct GgufDeleter {
  void operator()(gguf_context* context) const { gguf_free(context); }
};
using GgufContext = std::unique_ptr<gguf_context, GgufDeleter>;
struct GgmlDeleter {
  void operator()(ggml_context* context) const { ggml_free(context); }
};

void check_target(const DrafterConfig& config, const GgufFile& target) {
  const auto tokens = target.keys.find("tokenizer.ggml.tokens");
  const auto* list = tokens == target.keys.end() ? nullptr : std::get_if<std::vector<std::string>>(&tokens->second);
  require(list != nullptr, target.path.string(),
          " holds no tokenizer (tokenizer.ggml.tokens), so llama.cpp cannot pair a drafter with it; give the target's "
          "whole GGUF file");
  const std::string arch = target.architecture();
  // llama.cpp refuses a mask token that is no id of the tokenizer.
  check_fits_target(config, {.name = target.path.string(),
                             .hidden_size = target.integer(arch + ".embedding_length").value_or(0),
                             .num_layers = target.integer(arch + ".block_count").value_or(0),
                             .vocab_size = std::nullopt,
                             .num_tokens = static_cast<std::int64_t>(list->size())});
}

// Keeps only the target's tokenizer: vocabulary, merges, special ids, chat template.
GgufContext tokenizer_keys(const fs::path& target_gguf) {
  GgufContext keys(gguf_init_from_file(target_gguf.c_str(), {.no_alloc = true, .ctx = nullptr}));
  require(keys != nullptr, target_gguf.string(), " cannot be read by llama.cpp; give the GGUF file of the target");
  std::vector<std::string> others;
  for (std::int64_t i = 0; i < gguf_get_n_kv(keys.get()); ++i) {
    const std::string key = gguf_get_key(keys.get(), i);
    if (!key.starts_with("tokenizer.")) others.push_back(key);
  }
  for (const std::string& key : others) gguf_remove_key(keys.get(), key.c_str());
  return keys;
}

// Numbers of llama.cpp's list of file types: "all F32", "mostly F16", "mostly BF16".
std::uint32_t file_type(StoredType type) {
  return type == StoredType::kFloat32 ? 0 : type == StoredType::kFloat16 ? 1 : 32;
}

void set_u32(gguf_context* out, const std::string& key, std::int64_t value) {
  gguf_set_val_u32(out, key.c_str(), static_cast<std::uint32_t>(value));
}

void set_value(gguf_context* out, const std::string& key, const GgufKeyValue& value) {
  const auto set = [&](const auto& v) {
    using V = std::decay_t<decltype(v)>;
    if constexpr (std::is_same_v<V, std::uint32_t>) gguf_set_val_u32(out, key.c_str(), v);
    if constexpr (std::is_same_v<V, float>) gguf_set_val_f32(out, key.c_str(), v);
    if constexpr (std::is_same_v<V, bool>) gguf_set_val_bool(out, key.c_str(), v);
    if constexpr (std::is_same_v<V, std::vector<std::int32_t>>)
      gguf_set_arr_data(out, key.c_str(), GGUF_TYPE_INT32, v.data(), v.size());
    if constexpr (std::is_same_v<V, std::vector<std::int8_t>>)
      gguf_set_arr_data(out, key.c_str(), GGUF_TYPE_BOOL, v.data(), v.size());
  };
  std::visit(set, value);
}

void set_keys(gguf_context* out, const GgufDescription& drafter, const GgufFile& target, StoredType type) {
  gguf_set_val_str(out, "general.architecture", drafter.architecture.c_str());
  gguf_set_val_str(out, "general.type", "model");
  const std::string name = target.text("general.name").value_or(target.path.stem().string()) + " DFlash drafter";
  gguf_set_val_str(out, "general.name", name.c_str());
  for (const auto& [key, value] : drafter.keys) set_value(out, drafter.architecture + "." + key, value);
  set_u32(out, "general.file_type", file_type(type));
  set_u32(out, "general.quantization_version", GGML_QNT_VERSION);
}

// A tensor of the file: our name for messages, llama.cpp's name, and the type that it is stored in.
struct FileTensor {
  std::string ours, name;
  at::Tensor tensor;
  StoredType type;
};

std::vector<FileTensor> file_tensors(const LoadedDrafter& drafter, const GgufDescription& description,
                                     const at::Tensor& head, StoredType type) {
  std::vector<FileTensor> out;
  for (const Param& param : drafter.drafter->params())
    out.push_back({param.name, description.tensor_name(param.name), param.tensor, stored_type_of(param.role, type)});
  if (drafter.vocab.whole()) return out;
  const std::vector<std::int64_t> ids(drafter.vocab.ids.begin(), drafter.vocab.ids.end());
  out.push_back({"head", gguf_name({DecoderParam::kHead}), head, type});
  out.push_back({kDraftVocabTensor, kDraftVocabTensor, at::tensor(ids), StoredType::kFloat32});
  return out;
}

bool holds_ids(const FileTensor& t) { return t.tensor.scalar_type() == at::kLong; }

void describe_tensors(gguf_context* out, const std::vector<FileTensor>& tensors) {
  const std::unique_ptr<ggml_context, GgmlDeleter> descriptions(
      ggml_init({.mem_size = tensors.size() * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
  DRAFTSMITH_ASSERT(descriptions != nullptr);
  for (const FileTensor& entry : tensors) {
    static constexpr ggml_type kTypes[] = {GGML_TYPE_F32, GGML_TYPE_BF16, GGML_TYPE_F16};
    const ggml_type stored = holds_ids(entry) ? GGML_TYPE_I64 : kTypes[static_cast<int>(entry.type)];
    const at::Tensor& tensor = entry.tensor;
    ggml_tensor* t = tensor.dim() == 1 ? ggml_new_tensor_1d(descriptions.get(), stored, tensor.size(0))
                                       : ggml_new_tensor_2d(descriptions.get(), stored, tensor.size(1), tensor.size(0));
    ggml_set_name(t, entry.name.c_str());
    gguf_add_tensor(out, t);
  }
}

void require_replaceable(const fs::path& file, const fs::path& target_gguf, const std::string& architecture) {
  require(file.has_filename() && !fs::is_directory(file), file.string(), " is a folder; give the name of a .gguf file");
  if (!fs::exists(file)) return;
  require(!fs::equivalent(file, target_gguf), file.string(), " is the target itself; choose another output");
  require(fs::is_regular_file(file) && read_gguf(file).architecture() == architecture, file.string(),
          " exists and is no drafter; choose another output or move it away");
}

}  // namespace

void export_gguf(const LoadedDrafter& drafter, const fs::path& target_gguf, const fs::path& file, StoredType type,
                 const at::Tensor& head) {
  const DrafterConfig& config = drafter.config();
  check_drafter_config(config);
  const GgufDescription description = drafter.drafter->gguf();
  const GgufFile target = read_gguf(target_gguf);
  check_target(config, target);
  require_replaceable(file, target_gguf, description.architecture);
  if (!drafter.vocab.whole()) check_draft_head(drafter, head);

  const GgufContext out(gguf_init_empty());
  set_keys(out.get(), description, target, type);
  gguf_set_kv(out.get(), tokenizer_keys(target_gguf).get());
  set_u32(out.get(), "tokenizer.ggml.mask_token_id", config.mask_token_id);
  const std::vector<FileTensor> tensors = file_tensors(drafter, description, head, type);
  describe_tensors(out.get(), tensors);

  std::vector<std::byte> front(gguf_get_meta_size(out.get()));
  gguf_get_meta_data(out.get(), front.data());
  WholeFile written(file);
  written.write(front);
  const std::size_t alignment = gguf_get_alignment(out.get());
  for (const FileTensor& entry : tensors) {
    const at::Tensor stored = holds_ids(entry) ? entry.tensor : to_stored(entry.ours, entry.tensor, entry.type);
    const std::span<const std::byte> bytes = bytes_of(stored);
    written.write(bytes);
    written.write(std::vector<std::byte>((alignment - bytes.size() % alignment) % alignment));
  }
  written.commit();
}

}  // namespace draftsmith
