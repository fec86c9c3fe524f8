#include "draftsmith/bench/random_batch.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "draftsmith/draft/dflash/test_drafter.h"

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

TEST(RandomPack, DocumentsFollowEachOtherAndAllTokensAreSupervised) {
  const std::vector<std::int64_t> lengths = {20, 12};
  const Pack pack = random_pack(small_config(), lengths, 1);
  EXPECT_EQ(pack.length, 32);
  EXPECT_EQ(pack.documents[1].begin, 20);
  EXPECT_EQ(pack.position_ids[20], 0);
  const std::vector<std::int64_t> anchors = random_anchors(pack, 100, 1);
  EXPECT_EQ(anchors.size(), 19u + 11u);  // each token but the last of its document
}

}  // namespace
}  // namespace draftsmith
