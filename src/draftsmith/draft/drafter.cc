#include "draftsmith/draft/drafter.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/layer.h"
#include "draftsmith/nn/ops.h"
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

at::Tensor project_context(const DrafterConfig& config, const DrafterParams& params, const at::Tensor& features,
                           at::ScalarType type) {
  return rms_norm(linear(features.to(type), params.fc), params.hidden_norm, config.rms_norm_eps, type);
}

KeyValue key_value(const DrafterConfig& config, const LayerParams& layer, const at::Tensor& context, const Rope& rope) {
  return {head_norm_rope(linear(context, layer.k_proj), layer.k_norm, config.rms_norm_eps, rope),
          linear(context, layer.v_proj).view({-1, config.num_kv_heads, config.head_dim}).transpose(0, 1)};
}

at::Tensor layer_forward(const DrafterConfig& config, const LayerParams& layer, const at::Tensor& x,
                         const KeyValue& context, const Rope& block_rope,
                         const std::shared_ptr<const KeyRanges>& ranges, at::ScalarType type) {
  const double eps = config.rms_norm_eps;
  const at::Tensor u = rms_norm(x, layer.input_layernorm, eps, type);
  const at::Tensor q = head_norm_rope(linear(u, layer.q_proj), layer.q_norm, eps, block_rope);
  const KeyValue block = key_value(config, layer, u, block_rope);
  const at::Tensor seen = range_attention(q, context.k, context.v, block.k, block.v, ranges);
  const at::Tensor rows = seen.transpose(0, 1).reshape({x.size(0), config.num_heads * config.head_dim});
  const at::Tensor y = at::add(x, linear(rows, layer.o_proj));
  const at::Tensor w = rms_norm(y, layer.post_attention_layernorm, eps, type);
  return at::add(y, linear(swiglu(linear(w, layer.gate_proj), linear(w, layer.up_proj)), layer.down_proj));
}

at::Tensor drafter_forward(const DrafterConfig& config, const DrafterParams& params, const ForwardInputs& inputs,
                           Compute compute) {
  const BlockInputs& blocks = *inputs.blocks;
  const at::ScalarType type = scalar_type_of(compute);
  DRAFTSMITH_ASSERT(inputs.features.size(0) == static_cast<std::int64_t>(blocks.context_position_ids.size()));
  DRAFTSMITH_ASSERT(inputs.block_embeddings.size(0) == blocks.num_blocks * blocks.block_size);
  const Rope context_rope = make_rope(blocks.context_position_ids, config.head_dim, config.rope_theta);
  const Rope block_rope = make_rope(blocks.block_position_ids, config.head_dim, config.rope_theta);
  const at::Tensor context = project_context(config, params, inputs.features, type);
  at::Tensor x = inputs.block_embeddings.to(at::kFloat);  // the residual stream stays fp32
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const LayerParams& layer = params.layers[i];
    const auto& ranges = config.layer_kinds[i] == LayerKind::kSliding ? blocks.sliding : blocks.full;
    x = layer_forward(config, layer, x, key_value(config, layer, context, context_rope), block_rope, ranges, type);
    if (inputs.layer_outputs != nullptr) inputs.layer_outputs->push_back(x);
  }
  return rms_norm(x, params.norm, config.rms_norm_eps, type);
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
  return drafter;
}

}  // namespace draftsmith
