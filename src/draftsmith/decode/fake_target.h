// For tests only: a target whose next token is a table of the last one, drafters beside it that propose anything or
// always the same id, and the text of a refusal. Defined in fake_target_test.cc.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/target/target.h"

namespace draftsmith {

// The text of the UserError that `action` throws; "" when it throws none.
std::string error_of(const std::function<void()>& action);
// Tells whether `text` holds both parts.
bool says(const std::string& text, const std::string& part1, const std::string& part2);

class TableTarget final : public Target {
 public:
  static constexpr std::int64_t kVocab = 24, kHidden = 16, kLayers = 6;

  TableTarget(std::map<std::int32_t, std::int32_t> next, std::vector<std::int32_t> end_ids);

  const TargetInfo& info() const override { return info_; }
  at::Tensor embedding() override { return embedding_; }
  at::Tensor head() override { return head_; }
  DocumentFeatures features(std::span<const std::int32_t>, std::span<const std::int64_t>, bool) override { return {}; }
  std::vector<Answer> generate(std::span<const std::vector<std::int32_t>>, const GenerateOptions&,
                               const std::function<void(std::int64_t, const Answer&)>&) override;
  at::Tensor weight(const DecoderWeight&) override { return {}; }
  std::unique_ptr<TargetSession> session(std::span<const std::int64_t> taps, std::int64_t capacity) override;

  // Always proposes `id`: with no attention and no MLP a masked slot's state is the mask's own embedding.
  LoadedDrafter constant_drafter(std::int32_t id, std::int64_t block_size);
  static LoadedDrafter random_drafter(std::int64_t block_size, std::uint64_t seed);

  TargetInfo info_;
  std::map<std::int32_t, std::int32_t> next_;
  // Numbers that are added to the logits of a pass of n tokens, for the row that chooses the token at `position`.
  std::function<void(std::int64_t n, std::int64_t position, float* row)> disturb;

 private:
  at::Tensor embedding_, head_;
};

}  // namespace draftsmith
