// Tests the laws of ranks, for one process alone and for several ranks that are threads.
#include "draftsmith/ranks/ranks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "draftsmith/ranks/thread_ranks.h"

namespace draftsmith {
namespace {

void on_ranks(std::int64_t size, const std::function<void(Ranks&)>& body) {
  if (size > 1) return on_thread_ranks(size, body);
  Alone ranks;
  body(ranks);
}

TEST(Ranks, EveryRankGetsTheSumOfAll) {
  for (const std::int64_t size : {1, 2, 5})
    on_ranks(size, [&](Ranks& ranks) {
      ASSERT_EQ(ranks.size(), size);
      const at::Tensor values = at::arange(3, at::kDouble).add_(10 * ranks.rank());
      ranks.sum(values);
      const double tens = 5.0 * static_cast<double>(size * (size - 1));  // 10 * (0 + 1 + ... + size - 1)
      EXPECT_TRUE(values.equal(at::arange(3, at::kDouble).mul_(size).add_(tens))) << values;
    });
}

TEST(Ranks, EveryRankGetsTheValuesOfTheFirst) {
  for (const std::int64_t size : {1, 2, 5})
    on_ranks(size, [&](Ranks& ranks) {
      const at::Tensor values = at::full({2}, static_cast<double>(7 + ranks.rank()), at::kFloat);
      ranks.broadcast(values);
      EXPECT_TRUE(values.equal(at::full({2}, 7.0, at::kFloat)));
      EXPECT_EQ(ranks.agree(100 + ranks.rank()), 100);
    });
}

TEST(Ranks, OneWishIsTheWishOfAll) {
  for (const std::int64_t size : {1, 2, 5})
    for (std::int64_t wishing = -1; wishing < size; ++wishing)
      on_ranks(size, [&](Ranks& ranks) { EXPECT_EQ(ranks.agree(ranks.rank() == wishing), wishing >= 0); });
}

TEST(Ranks, EveryPieceIsTakenOnceAndOneRankIsFirst) {
  for (const std::int64_t size : {1, 2, 5}) {
    std::mutex mutex;
    std::vector<int> taken(7);
    int firsts = 0;
    on_ranks(size, [&](Ranks& ranks) {
      const std::lock_guard lock(mutex);
      firsts += ranks.first();
      for (std::int64_t i = 0; i < 7; ++i) taken[i] += ranks.takes(i);
    });
    EXPECT_EQ(firsts, 1);
    EXPECT_EQ(taken, std::vector<int>(7, 1));
  }
}

TEST(Ranks, AFailureOfOneRankReachesTheCaller) {
  EXPECT_THROW(on_thread_ranks(3,
                               [](Ranks& ranks) {
                                 if (ranks.rank() == 1) throw std::runtime_error("rank 1");
                                 ranks.agree(false);
                               }),
               std::runtime_error);
}

}  // namespace
}  // namespace draftsmith
