#include "draftsmith/bench/golden.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/drafter.h"
#include "draftsmith/draft/families.h"
#include "draftsmith/nn/tensor_io.h"
#include "draftsmith/store/files.h"
#include "draftsmith/store/safetensors.h"

namespace draftsmith {
namespace {

constexpr double kForwardBound = 1e-5, kGradientBound = 1e-4;

// Reads a 1-dimensional integer input; a `size` below zero accepts any length.
std::vector<std::int64_t> integers(const SafetensorsFile& file, const std::string& name, std::int64_t size) {
  std::vector<std::int64_t> values = file.copy<std::int64_t>(name, DType::kI64);
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
            documents[i], ", which is no document of a pack of ", pack.length);
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

  // Counts the entries that differ, for quantities that must be equal.
  void equal(const std::string& name, const at::Tensor& value) {
    const at::Tensor expected = tensor_from_safetensors(file_, "expect." + name).to(at::kDouble).flatten();
    const at::Tensor found = value.to(at::kDouble).flatten();
    const std::int64_t both = std::min(expected.numel(), found.numel());
    const auto wrong = (expected.narrow(0, 0, both) != found.narrow(0, 0, both)).sum().item<std::int64_t>();
    report_.errors.push_back({name, static_cast<double>(wrong + std::abs(expected.numel() - found.numel())), 0.0});
  }

 private:
  const SafetensorsFile& file_;
  GoldenReport& report_;
};

std::unique_ptr<Drafter> read_weights(const SafetensorsFile& file, const DrafterConfig& config) {
  return make_drafter(config, {.compute = at::kFloat}, [&](const std::string& name, const at::Tensor& shape, Role) {
    return float_tensor_from_safetensors(file, "weights." + name, shape.sizes().vec()).requires_grad_(true);
  });
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

// The files hold the cross-entropy of slots without supervision too.
at::Tensor nll_of_all_slots(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& labels,
                            std::int64_t block_size) {
  BlockLabels all{.num_blocks = labels.numel() / block_size, .block_size = block_size, .labels = {}, .counts = {}};
  all.labels.assign(labels.const_data_ptr<std::int32_t>(), labels.const_data_ptr<std::int32_t>() + labels.numel());
  all.counts.assign(all.labels.size(), 1.0f);
  const c10::NoGradGuard no_gradients;
  return head_loss(hidden, head, all, {}).nll;
}

at::Tensor traced(const Trace& trace, const std::string& name) {
  const auto found = std::find_if(trace.begin(), trace.end(), [&](const auto& entry) { return entry.first == name; });
  DRAFTSMITH_ASSERT(found != trace.end());
  return found->second;
}

// Whole numbers and truth values must be equal, everything else close.
void compare_trace(const Trace& trace, Comparison& compare) {
  for (const auto& [name, tensor] : trace) {
    if (tensor.is_floating_point())
      compare.close(name, tensor, kForwardBound);
    else
      compare.equal(name, tensor);
  }
}

}  // namespace

GoldenReport verify_golden(const std::filesystem::path& safetensors_file) {
  const SafetensorsFile file(safetensors_file);
  const Case golden = read_case(std::filesystem::path(safetensors_file).replace_extension(".json"));
  const DrafterConfig& config = golden.config;
  const std::unique_ptr<Drafter> drafter = read_weights(file, config);
  const Pack pack = read_pack(file, config);
  const std::vector<std::int64_t> anchors = integers(file, "input.anchors", -1);
  check_anchors(file, pack, anchors);
  const at::Tensor taps =
      float_tensor_from_safetensors(file, "input.target_hidden", {pack.length, config.num_taps() * config.hidden_size});
  const at::Tensor embedding =
      float_tensor_from_safetensors(file, "input.embed_tokens", {config.vocab_size, config.hidden_size});
  const at::Tensor head = float_tensor_from_safetensors(file, "input.lm_head", {config.vocab_size, config.hidden_size});

  GoldenReport report{.file = safetensors_file.string(), .errors = {}};
  Comparison compare(file, report);
  const at::AutoGradMode with_gradients(true);
  Trace trace;
  const LossSums sums = drafter->objective(freeze(embedding, head, {}, drafter->place()),
                                           {.pack = pack, .anchors = anchors, .taps = taps},
                                           {.loss = {.gamma = golden.gamma}, .trace = &trace});
  for (auto& [name, tensor] : trace)
    if (name == "nll")
      tensor = nll_of_all_slots(traced(trace, "hidden"), head, traced(trace, "labels"), config.block_size);
  compare_trace(trace, compare);
  compare.close("loss", sums.loss_sum / sums.weight_sum, kForwardBound);
  compare.close("accuracy", sums.correct_sum / sums.mask_sum, kForwardBound);
  for (const Param& param : drafter->params())
    compare.close("grad." + param.name, param.tensor.grad() / sums.weight_sum, kGradientBound);
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
