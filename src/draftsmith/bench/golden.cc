#include "draftsmith/bench/golden.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/drafter.h"
#include "draftsmith/draft/loss.h"
#include "draftsmith/nn/tensor_io.h"
#include "draftsmith/store/files.h"
#include "draftsmith/store/safetensors.h"

namespace draftsmith {
namespace {

constexpr double kForwardBound = 1e-5, kGradientBound = 1e-4;

// A 1-dimensional integer input; `size` below zero accepts any.
std::vector<std::int64_t> integers(const SafetensorsFile& file, const std::string& name, std::int64_t size) {
  const std::vector<std::int64_t> values = file.copy<std::int64_t>(name, DType::kI64);
  require(file.info(name).shape.size() == 1 && (size < 0 || static_cast<std::int64_t>(values.size()) == size),
          file.path().string(), ": tensor '", name, "' must be a list", size < 0 ? "" : text_of(" of ", size));
  return values;
}

Pack read_pack(const SafetensorsFile& file, const DrafterConfig& config) {
  Pack pack;
  const std::vector<std::int64_t> tokens = integers(file, "input.token_ids", -1);
  pack.length = static_cast<std::int64_t>(tokens.size());
  const std::vector<std::int64_t> documents = integers(file, "input.document_ids", pack.length);
  const at::Tensor loss_mask = float_tensor_from_safetensors(file, "input.loss_mask", {pack.length});
  pack.position_ids = integers(file, "input.position_ids", pack.length);
  for (std::int64_t i = 0; i < pack.length; ++i) {
    require(tokens[i] >= 0 && tokens[i] < config.vocab_size, file.path().string(), ": 'input.token_ids' holds ",
            tokens[i], ", outside the vocabulary of ", config.vocab_size);
    require(documents[i] >= -1 && documents[i] < pack.length, file.path().string(), ": 'input.document_ids' holds ",
            documents[i], ", which is no document of a row of ", pack.length);
    pack.token_ids.push_back(static_cast<std::int32_t>(tokens[i]));
    pack.document_ids.push_back(static_cast<std::int32_t>(documents[i]));
    pack.loss_mask.push_back(loss_mask.const_data_ptr<float>()[i] > 0 ? 1 : 0);
  }
  return pack;
}

void check_anchors(const SafetensorsFile& file, const Pack& pack, const std::vector<std::int64_t>& anchors) {
  for (const std::int64_t anchor : anchors) {
    require(anchor >= 0 && anchor < pack.length && pack.document_ids[anchor] >= 0, file.path().string(),
            ": 'input.anchors' holds ", anchor, ", which is not a position of a document");
  }
}

class Comparison {
 public:
  Comparison(const SafetensorsFile& file, GoldenReport& report) : file_(file), report_(report) {}

  void close(const std::string& name, const at::Tensor& value, double bound) {
    const at::Tensor expected = float_tensor_from_safetensors(file_, "expect." + name, value.sizes().vec());
    const double largest = expected.numel() > 0 ? expected.abs().max().item<double>() : 0.0;
    const double difference =
        expected.numel() > 0 ? (value.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>() : 0.0;
    report_.errors.push_back({name, largest > 0 ? difference / largest : difference, bound});
  }

  void close(const std::string& name, double value, double bound) {
    close(name, at::tensor({value}, at::TensorOptions(at::kDouble)), bound);
  }

  // The number of entries that differ; all must agree.
  template <class T>
  void equal(const std::string& name, const std::vector<T>& value) {
    const at::Tensor expected = tensor_from_safetensors(file_, "expect." + name).to(at::kDouble).flatten().contiguous();
    const double* numbers = expected.const_data_ptr<double>();
    double wrong = std::abs(static_cast<double>(expected.numel()) - static_cast<double>(value.size()));
    for (std::size_t i = 0; i < std::min(value.size(), static_cast<std::size_t>(expected.numel())); ++i) {
      if (numbers[i] != static_cast<double>(value[i])) ++wrong;
    }
    report_.errors.push_back({name, wrong, 0.0});
  }

 private:
  const SafetensorsFile& file_;
  GoldenReport& report_;
};

// [Q, S + Q], as the public implementations draw it.
std::vector<std::uint8_t> dense_mask(const KeyRanges& ranges) {
  std::vector<std::uint8_t> mask;
  for (std::int64_t row = 0; row < ranges.num_rows(); ++row) {
    for (std::int64_t key = 0; key < ranges.num_context; ++key) mask.push_back(ranges.sees_context(row, key));
    for (std::int64_t key = 0; key < ranges.num_rows(); ++key) mask.push_back(ranges.sees_block(row, key));
  }
  return mask;
}

DrafterParams read_weights(const SafetensorsFile& file, const DrafterConfig& config) {
  DrafterParams params = shape_params(config);
  visit_params(params, [&](const std::string& name, at::Tensor& tensor) {
    tensor = float_tensor_from_safetensors(file, "weights." + name, tensor.sizes().vec()).requires_grad_(true);
  });
  return params;
}

struct Case {
  DrafterConfig config;
  double gamma = 0;
};

Case read_case(const std::filesystem::path& json_file) {
  const std::string text = read_text_file(json_file, std::size_t{1} << 24);
  Case golden{.config = drafter_config_from_json(text, json_file.string())};
  const nlohmann::json document = nlohmann::json::parse(text);
  const auto gamma = document.find("loss_decay_gamma");
  require(gamma != document.end() && gamma->is_number(), json_file.string(), ": 'loss_decay_gamma' must be a number");
  golden.gamma = gamma->get<double>();
  return golden;
}

void compare_inputs(const BlockInputs& blocks, Comparison& compare) {
  compare.equal("mask", dense_mask(*blocks.full));
  if (blocks.sliding != nullptr) compare.equal("mask_sliding", dense_mask(*blocks.sliding));
  compare.equal("block_token_ids", blocks.block_token_ids);
  compare.equal("block_position_ids", blocks.block_position_ids);
  compare.equal("labels", blocks.labels);
}

// The files hold the nll of slots without supervision too.
at::Tensor nll_of_all_slots(const at::Tensor& hidden, const at::Tensor& head, BlockInputs blocks) {
  std::fill(blocks.mask.begin(), blocks.mask.end(), 1.0f);
  const c10::NoGradGuard no_gradients;
  return head_loss(hidden, head, blocks, {}).nll;
}

void compare_loss(const LossResult& loss, Comparison& compare) {
  compare.close("weights", loss.weights, kForwardBound);
  compare.close("loss", loss.loss_sum / loss.weight_sum, kForwardBound);
  compare.close("accuracy", loss.correct_sum / loss.mask_sum, kForwardBound);
  compare.equal("accepted", loss.accepted);
}

}  // namespace

GoldenReport verify_golden(const std::filesystem::path& safetensors_file) {
  const SafetensorsFile file(safetensors_file);
  const Case golden = read_case(std::filesystem::path(safetensors_file).replace_extension(".json"));
  const DrafterConfig& config = golden.config;
  DrafterParams params = read_weights(file, config);
  const Pack pack = read_pack(file, config);
  const std::vector<std::int64_t> anchors = integers(file, "input.anchors", -1);
  check_anchors(file, pack, anchors);
  const at::Tensor features =
      float_tensor_from_safetensors(file, "input.target_hidden", {pack.length, config.num_taps() * config.hidden_size});
  const at::Tensor embedding =
      float_tensor_from_safetensors(file, "input.embed_tokens", {config.vocab_size, config.hidden_size});
  const at::Tensor head = float_tensor_from_safetensors(file, "input.lm_head", {config.vocab_size, config.hidden_size});

  GoldenReport report{.file = safetensors_file.string(), .errors = {}};
  Comparison compare(file, report);
  const BlockInputs blocks = make_block_inputs(pack, anchors, config);
  compare_inputs(blocks, compare);
  const at::AutoGradMode with_gradients(true);
  std::vector<at::Tensor> layer_outputs;
  const ForwardInputs inputs{.features = features,
                             .block_embeddings = embedding.index_select(0, at::tensor(blocks.block_token_ids)),
                             .blocks = &blocks,
                             .layer_outputs = &layer_outputs};
  const at::Tensor hidden = drafter_forward(config, params, inputs, Compute::kFloat32);
  for (std::size_t i = 0; i < layer_outputs.size(); ++i) {
    compare.close("layer_output." + std::to_string(i), layer_outputs[i].detach(), kForwardBound);
  }
  compare.close("hidden", hidden.detach(), kForwardBound);
  const LossResult loss = head_loss(hidden, head, blocks, {.gamma = golden.gamma});
  compare_loss(loss, compare);
  compare.close("nll", nll_of_all_slots(hidden, head, blocks), kForwardBound);
  hidden.backward(loss.grad_hidden);
  visit_params(params, [&](const std::string& name, const at::Tensor& tensor) {
    compare.close("grad." + name, tensor.grad() / loss.weight_sum, kGradientBound);
  });
  report.passed = std::all_of(report.errors.begin(), report.errors.end(), [](const GoldenError& e) { return e.ok(); });
  return report;
}

std::string golden_reports_json(const std::vector<GoldenReport>& reports) {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  bool passed = true;
  for (const GoldenReport& report : reports) {
    nlohmann::ordered_json errors = nlohmann::ordered_json::object(), bounds = errors;
    for (const GoldenError& e : report.errors) {
      errors[e.name] = e.error;  // a NaN becomes null
      bounds[e.name] = e.bound;
    }
    files.push_back({{"file", report.file}, {"passed", report.passed}, {"errors", errors}, {"bounds", bounds}});
    passed = passed && report.passed;
  }
  return nlohmann::ordered_json{{"passed", passed}, {"files", files}}.dump(1) + "\n";
}

}  // namespace draftsmith
