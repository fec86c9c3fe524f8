// DFlash (z-lab): the drafter fills a block of mask tokens behind an anchor at once. Slots see the context before the
// anchor and each other.
#pragma once

#include <memory>

#include "draftsmith/draft/dflash/params.h"
#include "draftsmith/draft/drafter.h"

namespace draftsmith {

class DFlashDrafter final : public Drafter {
 public:
  DFlashDrafter(DrafterConfig config, DFlashParams params, const Place& place)
      : config_(std::move(config)), params_(std::move(params)), place_(place) {}

  const DrafterConfig& config() const override { return config_; }
  const Place& place() const override { return place_; }
  const DFlashParams& dflash_params() const { return params_; }
  ParamList params() const override;
  LossSums objective(const Frozen& frozen, const Batch& batch, const ObjectiveOptions& options) override;
  std::unique_ptr<Drafter> for_decoding(const Place& place) const override;
  std::unique_ptr<DraftSession> session(const Frozen& frozen, std::int64_t capacity) const override;
  std::int64_t max_drafts() const override { return config_.block_size - 1; }  // slot 0 is the anchor itself
  void start_random(Rng& rng, const at::Tensor& head) override;
  void start_from_target(const TargetWeightFn& target_weight) override;
  GgufDescription gguf() const override;
  StepFlops step_flops(const Frozen& frozen, const Batch& batch) const override;
  std::int64_t step_bytes(const StepSize& size) const override;

 private:
  const DrafterConfig config_;
  DFlashParams params_;
  const Place place_;
};

std::unique_ptr<Drafter> make_dflash(const DrafterConfig& config, const Place& place, const ParamSource& source);

}  // namespace draftsmith
