#include "draftsmith/decode/fake_target.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <utility>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/draft/test_loaded.h"

namespace draftsmith {
namespace {

at::Tensor pattern(std::int64_t rows, std::int64_t columns, double pace) {
  return at::sin(at::arange(rows * columns, at::kFloat) * pace + 1).view({rows, columns});
}

class TableSession final : public TargetSession {
 public:
  TableSession(TableTarget& target, std::int64_t num_taps, std::int64_t capacity)
      : target_(target), num_taps_(num_taps), capacity_(capacity) {}
  std::int64_t length() const override { return static_cast<std::int64_t>(tokens_.size()); }

  Pass extend(std::span<const std::int32_t> tokens) override {
    const auto n = static_cast<std::int64_t>(tokens.size());
    DRAFTSMITH_ASSERT(n >= 1 && length() + n <= capacity_);
    Pass pass;
    pass.logits = at::zeros({n, TableTarget::kVocab}, at::kFloat);
    if (num_taps_ > 0) pass.features = at::zeros({n, num_taps_ * TableTarget::kHidden}, at::kFloat);
    for (std::int64_t i = 0; i < n; ++i) {
      tokens_.push_back(tokens[i]);
      float* row = pass.logits.data_ptr<float>() + i * TableTarget::kVocab;
      const auto found = target_.next_.find(tokens[i]);
      row[found == target_.next_.end() ? 0 : found->second] = 4;
      if (target_.disturb) target_.disturb(n, length(), row);
      if (num_taps_ == 0) continue;
      float* feature = pass.features.data_ptr<float>() + i * num_taps_ * TableTarget::kHidden;
      for (std::int64_t j = 0; j < num_taps_ * TableTarget::kHidden; ++j) {
        feature[j] = static_cast<float>(std::cos(0.9 * double(tokens[i]) + 1.7 * double(j)));
      }
    }
    return pass;
  }
  void truncate(std::int64_t length) override {
    DRAFTSMITH_ASSERT(length >= 0 && length <= this->length());
    tokens_.resize(length);
  }

 private:
  TableTarget& target_;
  std::int64_t num_taps_, capacity_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& text, const std::string& part1, const std::string& part2) {
  return text.find(part1) != std::string::npos && text.find(part2) != std::string::npos;
}

TableTarget::TableTarget(std::map<std::int32_t, std::int32_t> next, std::vector<std::int32_t> end_ids)
    : next_(std::move(next)), embedding_(pattern(kVocab, kHidden, 0.7)), head_(pattern(kVocab, kHidden, 0.3)) {
  at::set_num_threads(1);  // these models are too small to share out
  info_.name = "chain";
  info_.architecture = "fake";
  info_.num_layers = kLayers;
  info_.hidden_size = kHidden;
  info_.intermediate_size = 32;
  info_.num_heads = 2;
  info_.num_kv_heads = 1;
  info_.head_dim = 16;
  info_.vocab_size = kVocab;
  info_.context_length = 256;
  info_.end_ids = std::move(end_ids);
}

std::vector<Target::Answer> TableTarget::generate(std::span<const std::vector<std::int32_t>>, const GenerateOptions&,
                                                  const std::function<void(std::int64_t, const Answer&)>&) {
  return {};
}

std::unique_ptr<TargetSession> TableTarget::session(std::span<const std::int64_t> taps, std::int64_t capacity) {
  DRAFTSMITH_ASSERT(capacity <= info_.context_length);
  return std::make_unique<TableSession>(*this, static_cast<std::int64_t>(taps.size()), capacity);
}

LoadedDrafter TableTarget::constant_drafter(std::int32_t id, std::int64_t block_size) {
  LoadedDrafter drafter = random_drafter(block_size, 1);
  for (const Param& param : drafter.drafter->params())
    if (param.name.ends_with("o_proj.weight") || param.name.ends_with("down_proj.weight")) param.tensor.zero_();
  head_[id] = 10 * embedding_[drafter.config().mask_token_id];
  return drafter;
}

LoadedDrafter TableTarget::random_drafter(std::int64_t block_size, std::uint64_t seed) {
  DrafterConfig config;
  config.hidden_size = kHidden;
  config.intermediate_size = 24;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 16;
  config.vocab_size = kVocab;
  config.block_size = block_size;
  config.mask_token_id = 23;
  config.target_layer_ids = {1, 3};
  config.num_target_layers = kLayers;
  config.layer_kinds = {LayerKind::kFull, LayerKind::kFull};
  return loaded_drafter(config, seed);
}

}  // namespace draftsmith
