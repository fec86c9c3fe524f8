#include "draftsmith/draft/dflash/cost.h"

#include <gtest/gtest.h>

#include "draftsmith/draft/dflash/test_drafter.h"

namespace draftsmith {
namespace {

// 3 layers of SmolLM2's width, 512 tokens, 192 anchors of 8: 105 GFLOP of the drafter and 152 of the head, by hand.
TEST(StepFlops, CountsWeightsByTheRowsThatSeeThem) {
  DrafterConfig config = small_config();
  config.hidden_size = 576, config.intermediate_size = 1536, config.num_heads = 9, config.num_kv_heads = 3;
  config.head_dim = 64, config.vocab_size = 49152, config.block_size = 8, config.target_layer_ids = {1, 2, 3, 4, 5};
  BlockInputs blocks;
  blocks.num_blocks = 192, blocks.block_size = 8;
  blocks.context_position_ids.assign(512, 0);
  const std::vector<std::int64_t> anchors(192, 100), begins(192, 0);
  for (int i = 0; i < 192 * 8; ++i) blocks.counts.push_back(i % 8 == 0 ? 0.0f : 1.0f), blocks.labels.push_back(0);
  blocks.full_mask = make_dflash_mask(config, LayerKind::kFull, anchors, begins, 512);
  const StepFlops flops = dflash_step_flops(config, blocks);
  EXPECT_DOUBLE_EQ(flops.projections,
                   6.0 * 512 * 5 * 576 * 576 + 3 * 6.0 * (1536.0 * 2 * 576 * 576 + 2048.0 * 2 * 192 * 576));
  EXPECT_DOUBLE_EQ(flops.mlp, 3 * 6.0 * 1536 * 3 * 576 * 1536);
  EXPECT_DOUBLE_EQ(flops.head, 4.0 * 1344 * 49152 * 576);
  EXPECT_DOUBLE_EQ(flops.attention, 3 * 14.0 * 64 * 9 * 1536 * 108);
  EXPECT_NEAR(flops.total() - flops.attention, 257e9, 1e9);
  blocks.labels[1] = -1;  // a label without a row is not computed
  EXPECT_DOUBLE_EQ(dflash_step_flops(config, blocks).head, 4.0 * 1343 * 49152 * 576);
}

}  // namespace
}  // namespace draftsmith
