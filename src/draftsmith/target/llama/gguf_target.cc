// The llama.cpp engine refuses bad files before llama.cpp sees them, reads what the model is, and gives its weights as
// tensors.
#include "draftsmith/target/llama/gguf_target.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <llama.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <thread>

#include "draftsmith/base/check.h"
#include "draftsmith/model/tap_rules.h"
#include "draftsmith/target/llama/load.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kMaxLayers = 512;  // llama.cpp's limit

// Returns the largest number of a key that is one number or a list with one for each layer; 0 without the key.
std::int64_t largest_of(const GgufFile& file, const std::string& key) {
  if (const auto value = file.integer(key)) return *value;
  const auto found = file.keys.find(key);
  if (found == file.keys.end()) return 0;
  const auto* list = std::get_if<std::vector<std::int64_t>>(&found->second);
  return list == nullptr || list->empty() ? 0 : *std::max_element(list->begin(), list->end());
}

TargetInfo read_info(const llama_model& model, const GgufWeights& weights) {
  const GgufFile& file = weights.file();
  const std::string prefix = file.architecture() + ".";
  TargetInfo info;
  info.name = file.text("general.name").value_or(file.path.stem().string());
  info.architecture = file.architecture();
  info.num_layers = llama_model_n_layer(&model);
  info.hidden_size = llama_model_n_embd(&model);
  info.num_heads = llama_model_n_head(&model);
  info.num_kv_heads = llama_model_n_head_kv(&model);
  info.head_dim = file.integer(prefix + "attention.key_length")
                      .value_or(info.num_heads > 0 ? info.hidden_size / info.num_heads : 0);
  info.intermediate_size = largest_of(file, prefix + "feed_forward_length");
  info.vocab_size = weights.find(kEmbeddingTensor)->shape[1];
  info.tied_head = weights.find(kHeadTensor) == nullptr;
  info.context_length = llama_model_n_ctx_train(&model);
  info.rope_theta = file.number(prefix + "rope.freq_base").value_or(10000.0);
  info.norm_eps = file.number(prefix + "attention.layer_norm_rms_epsilon")
                      .value_or(file.number(prefix + "attention.layer_norm_epsilon").value_or(1e-5));
  info.can_rewind = !llama_model_is_recurrent(&model) && !llama_model_is_hybrid(&model);
  const llama_vocab* vocab = llama_model_get_vocab(&model);
  for (std::int32_t id = 0; id < llama_vocab_n_tokens(vocab); ++id) {
    if (llama_vocab_is_eog(vocab, id)) info.end_ids.push_back(id);
  }
  require(
      llama_vocab_n_tokens(vocab) == info.vocab_size && weights.find(kEmbeddingTensor)->shape[0] == info.hidden_size,
      file.path.string(), ": token_embd.weight is [", info.vocab_size, ", ", weights.find(kEmbeddingTensor)->shape[0],
      "], the model has ", llama_vocab_n_tokens(vocab), " tokens and hidden size ", info.hidden_size);
  return info;
}

// The file's size and time are in the name, so that the copy of an older file is not taken for that of a newer one.
std::string bf16_copy_name(const std::filesystem::path& file) {
  const auto time = std::filesystem::last_write_time(file).time_since_epoch().count();
  return text_of(file.stem().string(), "-", std::filesystem::file_size(file), "-", time, "-bf16.gguf");
}

class GgufTarget final : public Target {
 public:
  GgufTarget(GgufWeights weights, const TargetOptions& options, const LlamaOptions& llama)
      : weights_(std::move(weights)) {
    require(options.threads >= 0, "threads must be 0 (all cores) or more, not ", options.threads);
    dtype_ = options.compute == Compute::kFloat32 ? at::kFloat : at::kBFloat16;
    const std::string path = weights_.file().path.string();
    auto loaded = std::make_shared<LoadedModel>();
    loaded->model = load_model(weights_.file().path);
    const llama_model& model = *loaded->model;
    require(llama_model_has_decoder(&model) && !llama_model_has_encoder(&model), path,
            ": a model with an encoder (architecture ", weights_.file().architecture(), ") cannot be a target");
    require(!llama_model_is_diffusion(&model), path, ": a diffusion model (architecture ",
            weights_.file().architecture(), ") cannot be a target");
    loaded->info = read_info(model, weights_);
    loaded->threads = options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
    loaded_ = std::move(loaded);
    copied_ = llama.feature_weights != FeatureWeights::kNative;
    features_ = std::make_unique<FeatureReader>(feature_model(options, llama));
  }

  const TargetInfo& info() const override { return loaded_->info; }

  at::Tensor embedding() override {
    if (!embedding_.defined()) embedding_ = weights_.read(kEmbeddingTensor, dtype_);
    return embedding_;
  }
  at::Tensor head() override {
    if (weights_.find(kHeadTensor) == nullptr) return embedding();  // tied
    if (!head_.defined()) head_ = weights_.read(kHeadTensor, dtype_);
    return head_;
  }

  DocumentFeatures features(std::span<const std::int32_t> document, std::span<const std::int64_t> taps,
                            bool want_final_state) override {
    if (!taps.empty()) check_taps(taps, info().num_layers);
    std::optional<QuickKernels> quick;
    if (copied_) quick.emplace();
    return features_->read(document, taps, want_final_state);
  }

  std::unique_ptr<TargetSession> session(std::span<const std::int64_t> taps, std::int64_t capacity) override {
    if (!taps.empty()) check_taps(taps, info().num_layers);
    return make_session(loaded_, taps, capacity);
  }

  std::vector<Answer> generate(std::span<const std::vector<std::int32_t>> prompts, const GenerateOptions& options,
                               const std::function<void(std::int64_t, const Answer&)>& on_answer) override {
    return generate_answers(*loaded_, prompts, options, on_answer);
  }

  std::int64_t bf16_copy_bytes() const override {
    std::int64_t elements = 0;
    for (const GgufTensor& tensor : weights_.file().tensors)
      elements += std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
    return 2 * elements;
  }

  at::Tensor weight(const DecoderWeight& weight) override {
    const std::string name = gguf_name(weight);
    if (weights_.find(name) == nullptr) return {};
    const at::Tensor rows = weights_.read(name, at::kFloat);
    return is_rotated_in_neighbours(weight.param, rows) ? neighbours_to_halves(rows, info().head_dim, rotated()) : rows;
  }

 private:
  std::shared_ptr<const LoadedModel> feature_model(const TargetOptions& options, const LlamaOptions& llama) const {
    if (llama.feature_weights == FeatureWeights::kNative) return loaded_;
    const std::filesystem::path& file = weights_.file().path;
    const std::filesystem::path copy = llama.copy_folder / bf16_copy_name(file);
    if (!std::filesystem::exists(copy)) {
      std::filesystem::create_directories(llama.copy_folder);
      if (options.notice)
        options.notice(text_of("writing the target's weights as bf16 to ", copy.string(),
                               "; model.feature_weights: native does without"));
      write_bf16_copy(file, copy, loaded_->threads);
    }
    auto other = std::make_shared<LoadedModel>(*loaded_);
    other->model = load_model(copy);
    return other;
  }

  std::int64_t rotated() const {
    return weights_.file().integer(info().architecture + ".rope.dimension_count").value_or(info().head_dim);
  }

  // llama.cpp says of each architecture whether its RoPE turns neighbouring elements of q and k. Its converter permutes
  // the rows of those architectures whose Hugging Face twin turns halves (llama, granite, internlm2, ...) and stores
  // the others as they came; both need the same reordering before rotate-half may be used. Latent attention
  // (kv_lora_rank) keeps another order inside a head and stays as stored.
  bool is_rotated_in_neighbours(DecoderParam param, const at::Tensor& rows) const {
    const bool is_query_or_key = param == DecoderParam::kQ || param == DecoderParam::kK ||
                                 param == DecoderParam::kQBias || param == DecoderParam::kKBias;
    const std::int64_t head_dim = info().head_dim;
    return is_query_or_key && llama_model_rope_type(loaded_->model.get()) == LLAMA_ROPE_TYPE_NORM && head_dim > 0 &&
           rows.size(0) % head_dim == 0 && rotated() >= 2 && rotated() % 2 == 0 && rotated() <= head_dim &&
           !weights_.file().integer(info().architecture + ".attention.kv_lora_rank");
  }

  GgufWeights weights_;
  at::ScalarType dtype_ = at::kBFloat16;
  std::shared_ptr<const LoadedModel> loaded_;
  std::unique_ptr<FeatureReader> features_;
  bool copied_ = false;  // features_ reads a copy in BF16
  at::Tensor embedding_, head_;
};

}  // namespace

void check_is_target(const GgufFile& file) {
  const std::string path = file.path.string(), architecture = file.architecture();
  require(!architecture.empty(), path, ": has no general.architecture; it is not a language model");
  require(architecture != "dflash" && architecture != "eagle3" && architecture != "gemma4-assistant", path,
          ": holds a drafter (architecture ", architecture, "), not a target; give the model it was trained for");
  require(architecture != "clip", path, ": holds an image encoder (architecture clip), not a language model");
  require(file.text("general.type").value_or("model") == "model", path, ": holds something of type ",
          file.text("general.type").value_or(""), ", not a whole model");
  require(!file.tensors.empty(), path, ": holds a vocabulary without weights");
  const GgufTensor* embedding = file.find_tensor(kEmbeddingTensor);
  require(embedding != nullptr, path,
          ": has no tensor token_embd.weight; it is not a language model that can be a target");
  require(embedding->shape.size() == 2, path, ": token_embd.weight has ", embedding->shape.size(),
          " dimensions instead of 2");
  const GgufTensor* head = file.find_tensor(kHeadTensor);
  require(head == nullptr || head->shape == embedding->shape, path,
          ": output.weight and token_embd.weight differ in shape");

  // llama.cpp stops the process, instead of failing, on these.
  const std::optional<std::int64_t> layers = file.integer(architecture + ".block_count");
  require(layers && *layers >= 1 && *layers <= kMaxLayers, path, ": ", architecture, ".block_count is ",
          layers ? std::to_string(*layers) : "missing", "; a model has 1 .. ", kMaxLayers, " layers");
  for (const char* name : {".attention.layer_norm_rms_epsilon", ".attention.layer_norm_epsilon"}) {
    const double eps = file.number(architecture + name).value_or(0);
    require(eps >= 0 && std::isfinite(eps), path, ": ", architecture, name, " is ", eps,
            "; it must be a small positive number");
  }
  for (const char* name : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    const auto found = file.keys.find(name);
    require(found == file.keys.end() || std::holds_alternative<std::vector<std::string>>(found->second), path, ": ",
            name, " is not a list of strings");
  }
  for (const char* name : {"tokenizer.ggml.scores", "tokenizer.ggml.token_type"}) {
    const auto found = file.keys.find(name);
    require(found == file.keys.end() || std::holds_alternative<std::vector<std::int64_t>>(found->second) ||
                std::holds_alternative<std::vector<double>>(found->second),
            path, ": ", name, " is not a list of numbers");
  }
}

void LoadedModel::check_tokens(std::span<const std::int32_t> tokens, const std::string& where) const {
  for (const std::int32_t token : tokens) {
    require(token >= 0 && token < info.vocab_size, where, " holds token ", token, ", but the target's ids are 0 .. ",
            info.vocab_size - 1, "; it was prepared with another tokenizer");
  }
}

std::unique_ptr<Target> load_gguf_target(const std::filesystem::path& file, const TargetOptions& options,
                                         const LlamaOptions& llama) {
  GgufWeights weights(file);
  check_is_target(weights.file());
  return std::make_unique<GgufTarget>(std::move(weights), options, llama);
}

}  // namespace draftsmith
