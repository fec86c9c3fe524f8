#include "draftsmith/draft/drafter.h"

#include <ATen/ops/empty.h>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/tensor_io.h"
#include "draftsmith/store/files.h"

namespace draftsmith {
namespace {

DrafterParams make_params(const DrafterConfig& c, at::Device device) {
  const auto tensor = [&](std::vector<std::int64_t> shape) {
    return at::empty(shape, at::TensorOptions(at::kFloat).device(device));
  };
  const std::int64_t q_width = c.num_heads * c.head_dim, kv_width = c.num_kv_heads * c.head_dim;
  DrafterParams params;
  params.fc = tensor({c.hidden_size, c.num_taps() * c.hidden_size});
  params.hidden_norm = tensor({c.hidden_size});
  params.norm = tensor({c.hidden_size});
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    params.layers.push_back({.input_layernorm = tensor({c.hidden_size}),
                             .q_proj = tensor({q_width, c.hidden_size}),
                             .k_proj = tensor({kv_width, c.hidden_size}),
                             .v_proj = tensor({kv_width, c.hidden_size}),
                             .o_proj = tensor({c.hidden_size, q_width}),
                             .q_norm = tensor({c.head_dim}),
                             .k_norm = tensor({c.head_dim}),
                             .post_attention_layernorm = tensor({c.hidden_size}),
                             .gate_proj = tensor({c.intermediate_size, c.hidden_size}),
                             .up_proj = tensor({c.intermediate_size, c.hidden_size}),
                             .down_proj = tensor({c.hidden_size, c.intermediate_size})});
  }
  return params;
}

}  // namespace

DrafterParams empty_params(const DrafterConfig& config) { return make_params(config, at::kCPU); }

DrafterParams shape_params(const DrafterConfig& config) { return make_params(config, at::kMeta); }

void init_random(DrafterParams& params, Rng& rng) {
  visit_params(params, [&](const std::string&, at::Tensor& tensor) {
    if (tensor.dim() == 1) {
      tensor.fill_(1.0);
      return;
    }
    float* values = tensor.data_ptr<float>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] = static_cast<float>(0.02 * rng.normal());
  });
}

std::int64_t num_parameters(const DrafterConfig& config) {
  std::int64_t count = 0;
  DrafterParams shapes = shape_params(config);
  visit_params(shapes, [&](const std::string&, const at::Tensor& tensor) { count += tensor.numel(); });
  return count;
}

LoadedDrafter read_drafter_folder(const std::filesystem::path& folder) {
  const std::filesystem::path config_file = folder / "config.json";
  LoadedDrafter drafter;
  drafter.config = drafter_config_from_json(read_text_file(config_file, std::size_t{1} << 24), config_file.string());
  const SafetensorsFolder files(folder);
  drafter.params = shape_params(drafter.config);  // shapes first: memory follows the checked file
  visit_params(drafter.params, [&](const std::string& name, at::Tensor& tensor) {
    const std::string stored = !files.has(name) && files.has("model." + name) ? "model." + name : name;
    tensor = float_tensor_from_safetensors(files.file_of(stored), stored, tensor.sizes().vec());
  });
  const std::int64_t drafted = drafter.config.draft_vocab_size;
  if (drafted > 0)
    drafter.vocab = read_draft_vocab(files.file_of(kDraftVocabTensor), drafted, drafter.config.vocab_size);
  return drafter;
}

}  // namespace draftsmith
