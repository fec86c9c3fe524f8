#include "draftsmith/nn/large_blocks.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "draftsmith/base/memory.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kMega = 1 << 20;

at::Tensor filled(std::int64_t megabytes) { return at::zeros({megabytes * kMega}, at::TensorOptions(at::kByte)); }
const void* place_of(const at::Tensor& tensor) { return tensor.const_data_ptr(); }

class LargeBlocks : public testing::Test {
 protected:
  void SetUp() override { install_block_cache(); }
  void TearDown() override { empty_block_cache(); }
};
class LargeBlocksBars : public LargeBlocks {};  // what the process holds, which others on the machine can disturb

TEST_F(LargeBlocks, ServeAgainWhenTheSizeIsNearlyTheSame) {
  at::Tensor tensor = filled(80);
  const void* place = place_of(tensor);
  tensor = at::Tensor();
  tensor = filled(72);
  EXPECT_EQ(place_of(tensor), place);
  tensor = at::Tensor();
  tensor = filled(60);  // a quarter of it would lie idle
  EXPECT_NE(place_of(tensor), place);
}

TEST_F(LargeBlocksBars, NeverHoldMoreThanWasInUseAtOnce) {
  const std::int64_t before = resident_bytes();
  at::Tensor a = filled(200), b = filled(100);
  const std::int64_t most = resident_bytes();
  EXPECT_GT(most - before, 290 * kMega);
  a = b = at::Tensor();
  for (const std::int64_t megabytes : {70, 130, 30, 170, 40, 250}) {
    const at::Tensor other = filled(megabytes);
    EXPECT_LT(resident_bytes(), most + 4 * kMega) << megabytes;
  }
}

TEST_F(LargeBlocksBars, AreGivenBackWhenAsked) {
  const std::int64_t before = resident_bytes();
  filled(200);
  EXPECT_GT(resident_bytes() - before, 190 * kMega);
  empty_block_cache();
  EXPECT_LT(resident_bytes() - before, 10 * kMega);
}

// A block of ours begins at a page. On the heap a tensor begins behind the heap's own words, or at any multiple of 64.
TEST_F(LargeBlocks, LeaveSmallTensorsToTheHeap) {
  const auto begins_a_page = [](const at::Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(place_of(tensor)) % 4096 == 0;
  };
  std::vector<at::Tensor> small;
  for (int i = 0; i < 100; ++i) small.push_back(at::empty({100}, at::TensorOptions(at::kByte)));
  EXPECT_LT(std::count_if(small.begin(), small.end(), begins_a_page), 50);
  EXPECT_TRUE(begins_a_page(filled(8)));
}

TEST_F(LargeBlocks, MemoryTakenWithoutATensorGoesBackWhereItCameFrom) {
  c10::Allocator* allocator = c10::GetAllocator(c10::kCPU);
  void* large = allocator->raw_allocate(8 * kMega);
  allocator->raw_deallocate(large);
  EXPECT_EQ(place_of(filled(8)), large);
  constexpr std::size_t kSmall = 1 << 20;
  const auto heap_bytes = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const std::size_t before = heap_bytes();
  void* small = allocator->raw_allocate(kSmall);
  EXPECT_GE(heap_bytes(), before + kSmall);
  allocator->raw_deallocate(small);
  EXPECT_LT(heap_bytes(), before + kSmall);
}

}  // namespace
}  // namespace draftsmith
