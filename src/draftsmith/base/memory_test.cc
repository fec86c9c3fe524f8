#include "draftsmith/base/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace draftsmith {
namespace {

TEST(MemoryBars, ThePeakIsWhatWasHeldSinceTheReset) {
  constexpr std::int64_t kSize = std::int64_t{64} << 20;
  const auto hold = [] {
    const auto block = std::make_unique<char[]>(kSize);
    std::memset(block.get(), 1, kSize);
    return block[kSize / 2];
  };
  EXPECT_EQ(hold(), 1);
  reset_peak_memory();
  const std::int64_t before = resident_bytes();
  EXPECT_GT(before, 0);
  EXPECT_LT(peak_resident_bytes(), before + kSize / 4);
  EXPECT_EQ(hold(), 1);
  EXPECT_GT(peak_resident_bytes(), before + kSize * 3 / 4);
}

}  // namespace
}  // namespace draftsmith
