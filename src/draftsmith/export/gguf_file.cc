// Keys and tensor names are those that llama.cpp reads for "dflash". It taps the *input* of a layer, hence taps + 1;
// its rotary positions are rotate-half here as in Hugging Face, so q and k keep their row order.
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

// llama.cpp has one flag for all layers.
bool causal_in_all_layers(const DrafterConfig& config) {
  const bool first = config.causal_in_block(0);
  for (std::int64_t i = 1; i < config.num_layers; ++i) {
    require(config.causal_in_block(i) == first,
            "this drafter mixes layers that are causal inside the block (sliding) with layers that are not, which "
            "llama.cpp's GGUF"
            " cannot say; export it with --to hf, or train it with all layers of one kind");
  }
  return first;
}

void check_target(const DrafterConfig& config, const GgufFile& target) {
  const std::string path = target.path.string();
  const std::string arch = target.architecture();
  const auto width = target.integer(arch + ".embedding_length");
  require(width == config.hidden_size, path, " has width ", width.value_or(0), ", the drafter ", config.hidden_size,
          "; give the target that it was trained for");
  const auto depth = target.integer(arch + ".block_count");
  require(depth == config.num_target_layers, path, " has ", depth.value_or(0), " layers, the drafter was trained for ",
          config.num_target_layers, "; give the target that it was trained for");
  const auto tokens = target.keys.find("tokenizer.ggml.tokens");
  const auto* list = tokens == target.keys.end() ? nullptr : std::get_if<std::vector<std::string>>(&tokens->second);
  require(list != nullptr, path,
          " holds no tokenizer (tokenizer.ggml.tokens); llama.cpp cannot pair a drafter with it");
  require(config.mask_token_id >= 0 && config.mask_token_id < static_cast<std::int64_t>(list->size()),
          "the mask token ", config.mask_token_id, " of the drafter is not among the ", list->size(), " tokens of ",
          path, ", and llama.cpp refuses such an id");
}

// Only the tokenizer of the target: vocabulary, merges, special ids, chat template.
GgufContext tokenizer_keys(const fs::path& target_gguf) {
  GgufContext keys(gguf_init_from_file(target_gguf.c_str(), {.no_alloc = true, .ctx = nullptr}));
  require(keys != nullptr, target_gguf.string(), " cannot be read by llama.cpp");
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

void set_keys(gguf_context* out, const DrafterConfig& config, const GgufFile& target, StoredType type) {
  gguf_set_val_str(out, "general.architecture", "dflash");
  gguf_set_val_str(out, "general.type", "model");
  const std::string name = target.text("general.name").value_or(target.path.stem().string()) + " DFlash drafter";
  gguf_set_val_str(out, "general.name", name.c_str());
  set_u32(out, "dflash.block_count", config.num_layers);
  set_u32(out, "dflash.context_length", config.max_position_embeddings);
  set_u32(out, "dflash.embedding_length", config.hidden_size);
  set_u32(out, "dflash.feed_forward_length", config.intermediate_size);
  set_u32(out, "dflash.attention.head_count", config.num_heads);
  set_u32(out, "dflash.attention.head_count_kv", config.num_kv_heads);
  set_u32(out, "dflash.attention.key_length", config.head_dim);
  set_u32(out, "dflash.attention.value_length", config.head_dim);
  gguf_set_val_f32(out, "dflash.rope.freq_base", static_cast<float>(config.rope_theta));
  gguf_set_val_f32(out, "dflash.attention.layer_norm_rms_epsilon", static_cast<float>(config.rms_norm_eps));
  set_u32(out, "dflash.block_size", config.block_size);
  std::vector<std::int32_t> layers;
  for (const std::int64_t tap : config.target_layer_ids) layers.push_back(static_cast<std::int32_t>(tap + 1));
  gguf_set_arr_data(out, "dflash.target_layers", GGUF_TYPE_INT32, layers.data(), layers.size());
  gguf_set_val_bool(out, "dflash.attention.causal", causal_in_all_layers(config));
  std::vector<std::int8_t> slides;
  for (const LayerKind kind : config.layer_kinds) slides.push_back(kind == LayerKind::kSliding ? 1 : 0);
  if (std::find(slides.begin(), slides.end(), 1) != slides.end()) {
    set_u32(out, "dflash.attention.sliding_window", config.sliding_window);
    gguf_set_arr_data(out, "dflash.attention.sliding_window_pattern", GGUF_TYPE_BOOL, slides.data(), slides.size());
  }
  set_u32(out, "general.file_type", file_type(type));
  set_u32(out, "general.quantization_version", GGML_QNT_VERSION);
}

// llama.cpp's name of a parameter: the decoder's table, and what only a drafter has.
std::string name_in_gguf(const std::string& name) {
  if (name == "fc.weight") return name;
  if (name == "hidden_norm.weight") return "enc.output_norm.weight";
  const auto weight = weight_of_hugging_face_name(name, /*prefix=*/"");
  DRAFTSMITH_ASSERT(weight.has_value());
  return gguf_name(*weight);
}

StoredType type_of_tensor(const at::Tensor& tensor, StoredType matrices) {
  return tensor.dim() == 1 ? StoredType::kFloat32 : matrices;
}

// Calls visit(name of ours, llama.cpp's name, tensor) for everything the file holds.
template <class Visit>
void visit_tensors(const LoadedDrafter& drafter, const at::Tensor& head, const Visit& visit) {
  visit_params(drafter.params,
               [&](const std::string& name, const at::Tensor& tensor) { visit(name, name_in_gguf(name), tensor); });
  if (drafter.vocab.whole()) return;
  visit("head", gguf_name({DecoderParam::kHead}), head);
  visit(kDraftVocabTensor, kDraftVocabTensor,
        at::tensor(std::vector<std::int64_t>(drafter.vocab.ids.begin(), drafter.vocab.ids.end())));
}

void describe_tensors(gguf_context* out, const LoadedDrafter& drafter, const at::Tensor& head, StoredType type) {
  const std::size_t count = 3 + 11 * drafter.params.layers.size() + 2;
  const std::unique_ptr<ggml_context, GgmlDeleter> descriptions(
      ggml_init({.mem_size = count * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
  DRAFTSMITH_ASSERT(descriptions != nullptr);
  visit_tensors(drafter, head, [&](const std::string&, const std::string& name, const at::Tensor& tensor) {
    static constexpr ggml_type kTypes[] = {GGML_TYPE_F32, GGML_TYPE_BF16, GGML_TYPE_F16};
    const bool ids = tensor.scalar_type() == at::kLong;
    const ggml_type stored = ids ? GGML_TYPE_I64 : kTypes[static_cast<int>(type_of_tensor(tensor, type))];
    ggml_tensor* t = tensor.dim() == 1 ? ggml_new_tensor_1d(descriptions.get(), stored, tensor.size(0))
                                       : ggml_new_tensor_2d(descriptions.get(), stored, tensor.size(1), tensor.size(0));
    ggml_set_name(t, name.c_str());
    gguf_add_tensor(out, t);
  });
}

void require_replaceable(const fs::path& file, const fs::path& target_gguf) {
  require(file.has_filename() && !fs::is_directory(file), file.string(), " is a folder; give the name of a .gguf file");
  if (!fs::exists(file)) return;
  require(!fs::equivalent(file, target_gguf), file.string(), " is the target itself; choose another output");
  require(fs::is_regular_file(file) && read_gguf(file).architecture() == "dflash", file.string(),
          " exists and is no drafter; choose another output or move it away");
}

}  // namespace

void export_gguf(const LoadedDrafter& drafter, const fs::path& target_gguf, const fs::path& file, StoredType type,
                 const at::Tensor& head) {
  check_drafter_config(drafter.config);
  causal_in_all_layers(drafter.config);
  const GgufFile target = read_gguf(target_gguf);
  check_target(drafter.config, target);
  require_replaceable(file, target_gguf);
  if (!drafter.vocab.whole()) check_draft_head(drafter, head);

  const GgufContext out(gguf_init_empty());
  set_keys(out.get(), drafter.config, target, type);
  gguf_set_kv(out.get(), tokenizer_keys(target_gguf).get());
  set_u32(out.get(), "tokenizer.ggml.mask_token_id", drafter.config.mask_token_id);
  describe_tensors(out.get(), drafter, head, type);

  std::vector<std::byte> front(gguf_get_meta_size(out.get()));
  gguf_get_meta_data(out.get(), front.data());
  WholeFile written(file);
  written.write(front);
  const std::size_t alignment = gguf_get_alignment(out.get());
  visit_tensors(drafter, head, [&](const std::string& name, const std::string&, const at::Tensor& tensor) {
    const bool ids = tensor.scalar_type() == at::kLong;
    const at::Tensor stored = ids ? tensor : to_stored(name, tensor, type_of_tensor(tensor, type));
    const std::span<const std::byte> bytes = bytes_of(stored);
    written.write(bytes);
    written.write(std::vector<std::byte>((alignment - bytes.size() % alignment) % alignment));
  });
  written.commit();
}

}  // namespace draftsmith
