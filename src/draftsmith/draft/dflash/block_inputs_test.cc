#include "draftsmith/draft/dflash/block_inputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "draftsmith/draft/dflash/test_drafter.h"
#include "draftsmith/nn/mask.h"

namespace draftsmith {
namespace {

using Table = std::map<std::int64_t, std::vector<std::int64_t>>;

// For each anchor, the positions whose labels count, with `supervised` positions in one document of `length` tokens
// whose ids are their positions.
Table targets(std::int64_t length, const std::vector<std::int64_t>& supervised, std::int64_t block_size) {
  DrafterConfig config = small_config();
  config.block_size = block_size;
  TestDocument document = random_document(config, length, 1);
  document.loss_mask.assign(static_cast<std::size_t>(length), 0);
  for (std::int64_t i = 0; i < length; ++i) document.tokens[i] = static_cast<std::int32_t>(i);
  for (const std::int64_t i : supervised) document.loss_mask[i] = 1;
  const TestPack in = pack_of(config, {document});
  const std::vector<std::int64_t> anchors = valid_anchors(in.pack, in.pack.documents[0]);
  const BlockInputs blocks = make_block_inputs(in.pack, anchors, config);
  Table table;
  for (std::size_t b = 0; b < anchors.size(); ++b) {
    for (std::int64_t j = 0; j < block_size; ++j) {
      const std::size_t at = b * block_size + j;
      if (blocks.counts[at] > 0) table[anchors[b]].push_back(blocks.labels[at]);
    }
  }
  return table;
}

TEST(BlockInputs, EverySupervisedTokenAndNoOtherIsATarget) {
  EXPECT_EQ(targets(12, {5, 6, 7, 8, 9}, 4), (Table{{5, {6, 7, 8}}, {6, {7, 8, 9}}, {7, {8, 9}}, {8, {9}}}));
  EXPECT_EQ(targets(10, {2, 3, 4, 7, 8}, 4), (Table{{2, {3, 4}}, {3, {4}}, {7, {8}}}));
  EXPECT_EQ(targets(20, {17, 18, 19}, 16), (Table{{17, {18, 19}}, {18, {19}}}));
}

TEST(BlockInputs, BlocksStartWithTheAnchorTokenAndCountPositionsFromIt) {
  const DrafterConfig config = small_config();
  const TestPack in = pack_of(config, {random_document(config, 9, 1), random_document(config, 7, 2)}, 3);
  const BlockInputs blocks = make_block_inputs(in.pack, std::vector<std::int64_t>{2, 10}, config);
  EXPECT_EQ(blocks.block_position_ids, (std::vector<std::int64_t>{2, 3, 4, 5, 1, 2, 3, 4}));
  const std::int32_t m = config.mask_token_id;
  EXPECT_EQ(blocks.block_token_ids,
            (std::vector<std::int32_t>{in.pack.token_ids[2], m, m, m, in.pack.token_ids[10], m, m, m}));
  EXPECT_EQ(blocks.sliding_mask, nullptr);
}

// The rule of the design, evaluated for every pair.
TEST(BlockInputs, TheMaskIsTheDesignsSentence) {
  const std::int64_t window = 6;
  for (const std::optional<bool> causal :
       {std::optional<bool>(), std::optional<bool>(false), std::optional<bool>(true)}) {
    DrafterConfig config = small_sliding_config(window);
    config.is_causal = causal;
    const TestPack in = pack_of(config, {random_document(config, 21, 1), random_document(config, 17, 2)}, 4);
    const std::vector<std::int64_t> anchors = {0, 5, 6, 19, 21, 30, 36};
    const BlockInputs blocks = make_block_inputs(in.pack, anchors, config);
    for (const bool slides : {false, true}) {
      const at::Tensor mask = dense_mask(slides ? *blocks.sliding_mask : *blocks.full_mask);
      const std::int64_t slots = mask.size(0), context = in.pack.length;
      ASSERT_EQ(mask.size(1), context + slots);
      const bool* seen = mask.const_data_ptr<bool>();
      for (std::int64_t row = 0; row < slots; ++row, seen += mask.size(1)) {
        const std::int64_t b = row / config.block_size, j = row % config.block_size, a = anchors[b];
        for (std::int64_t t = 0; t < context; ++t)
          EXPECT_EQ(seen[t], t < a && in.pack.document_ids[t] == in.pack.document_ids[a] &&
                                 (!slides || t >= a + j - (window - 1)));
        for (std::int64_t key = 0; key < slots; ++key)
          EXPECT_EQ(seen[context + key],
                    key / config.block_size == b && (!causal.value_or(slides) || key % config.block_size <= j));
      }
    }
  }
}

TEST(DecayWeights, GammaFollowsTheBlockSize) {
  const auto gamma = [](std::int64_t size) { return -1.0 / std::log(decay_weights(size, 0)[2]); };
  EXPECT_NEAR(gamma(16), 7, 1e-5);
  EXPECT_NEAR(gamma(10), 5, 1e-5);
  EXPECT_NEAR(gamma(8), 4, 1e-5);
  EXPECT_NEAR(gamma(13), 6, 1e-5);
  EXPECT_NEAR(gamma(9), 4.5, 1e-5);
  EXPECT_GE(decay_weights(2, 0)[1], 1.0f);
  EXPECT_EQ(decay_weights(4, 3)[0], 0.0f);
  EXPECT_EQ(decay_weights(4, 3)[1], 1.0f);
  EXPECT_NEAR(decay_weights(4, 3)[3], std::exp(-2.0 / 3.0), 1e-6);
}

}  // namespace
}  // namespace draftsmith
