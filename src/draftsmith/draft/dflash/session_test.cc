#include "draftsmith/draft/dflash/session.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <gtest/gtest.h>

#include "draftsmith/draft/dflash/forward.h"
#include "draftsmith/draft/dflash/test_drafter.h"

namespace draftsmith {
namespace {

// Drafts of the training-time pass at anchor `a` of a document of its own.
std::vector<std::int32_t> trained_drafts(const DrafterConfig& config, const DFlashParams& params,
                                         const at::Tensor& embedding, const at::Tensor& head, const TestPack& in,
                                         std::int64_t a, const Place& place) {
  const c10::NoGradGuard no_gradients;
  const BlockInputs blocks = make_block_inputs(in.pack, std::vector<std::int64_t>{a}, config);
  const ForwardInputs inputs{.taps = in.features,
                             .block_embeddings = embedding.index_select(0, at::tensor(blocks.block_token_ids)),
                             .blocks = &blocks};
  const at::Tensor hidden = dflash_forward(config, params, inputs, place.compute);
  const at::Tensor best = at::mm(hidden, head.to(hidden.scalar_type()).t()).argmax(1);
  std::vector<std::int32_t> drafts;
  for (std::int64_t j = 1; j < config.block_size; ++j)
    drafts.push_back(static_cast<std::int32_t>(best.select(0, j).item<std::int64_t>()));
  return drafts;
}

// How many of the session's drafts differ from the training pass's, and how many there are.
struct Difference {
  int wrong = 0, all = 0;
};

Difference difference_from_training(const DrafterConfig& config, const Place& place) {
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
    const auto expected = trained_drafts(config, params, embedding, head, in, a, place);
    const auto got = session.propose(in.pack.token_ids[a], config.block_size - 1);
    EXPECT_EQ(session.propose(in.pack.token_ids[a], 2), (std::vector<std::int32_t>{got[0], got[1]})) << a;
    for (std::size_t j = 0; j < expected.size(); ++j, ++difference.all) difference.wrong += got[j] != expected[j];
  }
  return difference;
}

TEST(DraftSession, DraftsAreThoseOfTheTrainingPass) {
  EXPECT_EQ(difference_from_training(small_config(), kFloatPlace).wrong, 0);
  EXPECT_EQ(difference_from_training(small_sliding_config(9), kFloatPlace).wrong, 0);
}

// Products of another size round differently in bf16; two nearly equal logits may then change places.
TEST(DraftSession, HalfPrecisionDraftsDifferAtMostByRounding) {
  const Difference difference = difference_from_training(small_config(), Place{});
  EXPECT_EQ(difference.all, 21);
  EXPECT_LE(difference.wrong, 3);
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
