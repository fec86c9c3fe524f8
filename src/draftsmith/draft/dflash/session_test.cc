#include "draftsmith/draft/dflash/session.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "draftsmith/draft/dflash/forward.h"
#include "draftsmith/draft/dflash/test_drafter.h"

namespace draftsmith {
namespace {

// Logits [B - 1, V] by which the training-time pass drafts at anchor `a` of a document of its own.
at::Tensor trained_logits(const DrafterConfig& config, const DFlashParams& params, const at::Tensor& embedding,
                          const at::Tensor& head, const TestPack& in, std::int64_t a, const Place& place) {
  const c10::NoGradGuard no_gradients;
  const BlockInputs blocks = make_block_inputs(in.pack, std::vector<std::int64_t>{a}, config);
  const ForwardInputs inputs{.taps = in.features,
                             .block_embeddings = embedding.index_select(0, at::tensor(blocks.block_token_ids)),
                             .blocks = &blocks};
  const at::Tensor hidden = dflash_forward(config, params, inputs, place.compute);
  return at::mm(hidden, head.to(hidden.scalar_type()).t()).narrow(0, 1, config.block_size - 1).to(at::kFloat);
}

// The distance of the session's drafts from the training pass's best ones, by the training pass's logits: the largest
// difference of a logit, relative to the largest logit of its slot.
struct Difference {
  double largest = 0;
  int num_drafts = 0;
};

// Among so many ids the best logits lie close together, so that a small fault of the session changes drafts.
constexpr std::int32_t kManyIds = 20000;

Difference difference_from_training(DrafterConfig config, const Place& place) {
  config.vocab_size = kManyIds, config.mask_token_id = kManyIds - 1;
  const DFlashParams params = random_params(config);
  Rng rng(2, RngPurpose::kTest);
  const at::Tensor embedding = random_tensor(rng, {config.vocab_size, config.hidden_size});
  const at::Tensor head = random_tensor(rng, {config.vocab_size, config.hidden_size});
  const TestPack in = pack_of(config, {random_document(config, 40, 1)});
  const auto drafter = DFlashDrafter(config, params, place).for_decoding(place);
  const Frozen frozen = freeze(embedding, head, {}, place);
  const auto owned = drafter->session(frozen, 64);
  DraftSession& session = *owned;
  Difference difference;
  for (const std::int64_t step : {1, 1, 7, 2, 0, 12, 3}) {  // features arrive a few at a time, as drafts are accepted
    session.append(in.features.narrow(0, session.length(), step));
    const std::int64_t a = session.length();
    const at::Tensor logits = trained_logits(config, params, embedding, head, in, a, place);
    const auto got = session.propose(in.pack.token_ids[a], config.block_size - 1);
    EXPECT_EQ(session.propose(in.pack.token_ids[a], 2), (std::vector<std::int32_t>{got[0], got[1]})) << a;
    for (std::int64_t j = 0; j < logits.size(0); ++j, ++difference.num_drafts) {
      const at::Tensor slot = logits.select(0, j);
      const double best = slot.max().item<double>(), largest = slot.abs().max().item<double>();
      const double chosen = slot.select(0, got[static_cast<std::size_t>(j)]).item<double>();
      difference.largest = std::max(difference.largest, (best - chosen) / largest);
    }
  }
  return difference;
}

TEST(DraftSession, DraftsAreThoseOfTheTrainingPass) {
  EXPECT_EQ(difference_from_training(small_config(), kFloatPlace).largest, 0);
  EXPECT_EQ(difference_from_training(small_sliding_config(9), kFloatPlace).largest, 0);
}

// Products of another size round differently in bf16, so two nearly equal logits may change places: every draft must
// be the training pass's best within that rounding.
TEST(DraftSession, HalfPrecisionDraftsDifferAtMostByRounding) {
  for (const DrafterConfig& config : {small_config(), small_sliding_config(9)}) {
    const Difference difference = difference_from_training(config, Place{});
    EXPECT_EQ(difference.num_drafts, 21);
    EXPECT_LE(difference.largest, 1.0 / 128);
  }
}

TEST(DraftSession, AppendingInPiecesEqualsAppendingAtOnce) {
  const DrafterConfig config = small_sliding_config(7);
  const DFlashParams params = random_params(config);
  Rng rng(2, RngPurpose::kTest);
  const at::Tensor embedding = random_tensor(rng, {config.vocab_size, config.hidden_size});
  const TestPack in = pack_of(config, {random_document(config, 40, 1)});
  const Frozen frozen = freeze(embedding, embedding, {}, kFloatPlace);
  DFlashSession once(config, params, kFloatPlace, frozen, 40), pieces(config, params, kFloatPlace, frozen, 40);
  once.append(in.features.narrow(0, 0, 30));
  for (std::int64_t i = 0; i < 30; i += 3) pieces.append(in.features.narrow(0, i, 3));
  EXPECT_EQ(once.length(), pieces.length());
  for (std::int32_t token = 0; token < 20; ++token) EXPECT_EQ(once.propose(token, 3), pieces.propose(token, 3));
}

}  // namespace
}  // namespace draftsmith
