#include "draftsmith/bench/random_row.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "draftsmith/draft/dflash/step_flops.h"
#include "draftsmith/draft/test_drafter.h"

namespace draftsmith {
namespace {

TEST(RandomMatrix, IsTheSameOnAnyNumberOfThreadsAndInPieces) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = random_matrix(37, 20, 0.5, at::kFloat, 3, 9);
  at::set_num_threads(2);
  EXPECT_TRUE(one.equal(random_matrix(37, 20, 0.5, at::kFloat, 3, 9)));
  at::set_num_threads(threads);
  const std::vector<std::int32_t> ids = {5, 36, 5};
  const at::Tensor rows = random_matrix_rows(ids, 20, 0.5, at::kFloat, 3, 9);
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_TRUE(rows.select(0, static_cast<std::int64_t>(i)).equal(one.select(0, ids[i])));
  EXPECT_NEAR(random_matrix(200, 50, 0.5, at::kBFloat16, 1, 1).to(at::kFloat).std().item<double>(), 0.5, 0.01);
}

TEST(RandomRow, HasWhatAPassNeeds) {
  const DrafterConfig config = small_config();
  const std::vector<std::int64_t> lengths = {20, 12}, anchors = {3, 19, 25};
  const Pack pack = random_pack(config, lengths, 1);
  EXPECT_EQ(pack.length, 32);
  EXPECT_EQ(pack.documents[1].begin, 20);
  const RandomRow row = random_row(config, pack, anchors, AttentionPath::kPlain, at::kFloat, 1);
  const at::Tensor hidden =
      drafter_forward(config, random_drafter(config, at::kFloat, 1), row.inputs(), Compute::kFloat32);
  EXPECT_EQ(hidden.sizes(), (std::vector<std::int64_t>{3 * config.block_size, config.hidden_size}));
}

// 3 layers of SmolLM2's width, 512 tokens, 192 anchors of 8: 105 GFLOP of the drafter and 152 of the head, by hand.
TEST(StepFlops, CountsWeightsByTheRowsThatSeeThem) {
  DrafterConfig config = small_config();
  config.hidden_size = 576, config.intermediate_size = 1536, config.num_heads = 9, config.num_kv_heads = 3;
  config.head_dim = 64, config.vocab_size = 49152, config.block_size = 8, config.target_layer_ids = {1, 2, 3, 4, 5};
  BlockInputs blocks;
  blocks.num_blocks = 192, blocks.block_size = 8;
  blocks.context_position_ids.assign(512, 0);
  auto ranges = std::make_shared<KeyRanges>();
  ranges->num_context = 512, ranges->block_size = 8;
  for (int i = 0; i < 192 * 8; ++i) {
    blocks.mask.push_back(i % 8 == 0 ? 0.0f : 1.0f), blocks.labels.push_back(0);
    ranges->context_begin.push_back(0), ranges->context_end.push_back(100);
    ranges->block_begin.push_back(i / 8 * 8), ranges->block_end.push_back(i / 8 * 8 + 8);
  }
  blocks.full = ranges;
  const StepFlops flops = step_flops(config, blocks);
  EXPECT_DOUBLE_EQ(flops.projections,
                   6.0 * 512 * 5 * 576 * 576 + 3 * 6.0 * (1536.0 * 2 * 576 * 576 + 2048.0 * 2 * 192 * 576));
  EXPECT_DOUBLE_EQ(flops.mlp, 3 * 6.0 * 1536 * 3 * 576 * 1536);
  EXPECT_DOUBLE_EQ(flops.head, 4.0 * 1344 * 49152 * 576);
  EXPECT_DOUBLE_EQ(flops.attention, 3 * 14.0 * 64 * 9 * 1536 * 108);
  EXPECT_NEAR(flops.total() - flops.attention, 257e9, 1e9);
  blocks.labels[1] = -1;  // a label without a row is not computed
  EXPECT_DOUBLE_EQ(step_flops(config, blocks).head, 4.0 * 1343 * 49152 * 576);
}

}  // namespace
}  // namespace draftsmith
