// A drafter goes with the target that it was trained for, and says by name what another one lacks.
#include "draftsmith/draft/target_fit.h"

#include <gtest/gtest.h>

#include <functional>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

TEST(TargetFit, EachSizeThatDiffersIsNamed) {
  DrafterConfig drafter;
  drafter.hidden_size = 48;
  drafter.num_target_layers = 6;
  drafter.vocab_size = 67;
  drafter.mask_token_id = 66;
  drafter.target_layer_ids = {1, 4};
  const TargetSizes fits{.name = "t", .hidden_size = 48, .num_layers = 6, .vocab_size = 67, .num_tokens = 67};
  check_fits_target(drafter, fits);
  check_fits_target(drafter, {.name = "t", .hidden_size = {}, .num_layers = {}, .vocab_size = {}, .num_tokens = {}});
  const auto refusal = [&](const std::function<void(TargetSizes&)>& change) {
    TargetSizes other = fits;
    change(other);
    try {
      check_fits_target(drafter, other);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  EXPECT_EQ(
      refusal([](TargetSizes& t) { t.hidden_size = 64; }),
      "the drafter was trained for a target with width 48, but t has 64; give the target that it was trained for");
  EXPECT_NE(refusal([](TargetSizes& t) { t.num_layers = 5; }).find("number of layers 6, but t has 5"),
            std::string::npos);
  EXPECT_NE(refusal([](TargetSizes& t) { t.vocab_size = 68; }).find("vocabulary size 67, but t has 68"),
            std::string::npos);
  EXPECT_NE(refusal([](TargetSizes& t) { t.num_tokens = 66; }).find("mask token 66 is not among the 66 ids of t"),
            std::string::npos);
}

}  // namespace
}  // namespace draftsmith
