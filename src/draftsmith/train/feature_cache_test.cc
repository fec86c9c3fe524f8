// The cache changes when features are computed, never what they are.
#include "draftsmith/train/feature_cache.h"

#include <gtest/gtest.h>

#include "draftsmith/train/fake_target.h"

namespace draftsmith {
namespace {

struct FeatureCacheTest : testing::Test {
  TinyRun run{"features"};
  const std::vector<std::int64_t> taps = {1, 3};
  const std::int64_t token_bytes = 2 * 32 * 2;

  at::Tensor row_of_all(FeatureCache& cache) {
    std::vector<DocumentSpan> spans;
    std::int64_t begin = 0;
    for (std::int64_t d = 0; d < 6; ++d) {
      spans.push_back({.document = d, .begin = begin, .length = run.data.train.length(d)});
      begin += run.data.train.length(d);
    }
    tokens = begin;
    return cache.row(spans, begin + 5);
  }
  std::int64_t tokens = 0;
};

TEST_F(FeatureCacheTest, MemoryDiskAndRecomputingGiveTheSameBits) {
  FeatureCache memory(run.target, run.data.train, {.taps = taps, .memory_bytes = 1 << 20, .folder = run.folder});
  const at::Tensor expected = row_of_all(memory);
  EXPECT_TRUE(row_of_all(memory).equal(expected));
  EXPECT_EQ(memory.computed_tokens(), tokens);  // once only
  EXPECT_EQ(memory.held_tokens(), tokens);

  FeatureCache disk(run.target, run.data.train, {.taps = taps, .disk_bytes = 1 << 20, .folder = run.folder});
  EXPECT_TRUE(row_of_all(disk).equal(expected));
  EXPECT_TRUE(row_of_all(disk).equal(expected));
  EXPECT_EQ(disk.computed_tokens(), tokens);

  FeatureCache nothing(run.target, run.data.train, {.taps = taps, .folder = run.folder});
  EXPECT_TRUE(row_of_all(nothing).equal(expected));
  EXPECT_TRUE(row_of_all(nothing).equal(expected));
  EXPECT_EQ(nothing.computed_tokens(), 2 * tokens);

  FeatureCache mixed(
      run.target, run.data.train,
      {.taps = taps, .memory_bytes = 30 * token_bytes, .disk_bytes = 30 * token_bytes, .folder = run.folder});
  EXPECT_TRUE(row_of_all(mixed).equal(expected));
  EXPECT_TRUE(row_of_all(mixed).equal(expected));
  EXPECT_LE(mixed.held_tokens(), mixed.capacity_tokens());
  EXPECT_EQ(mixed.capacity_tokens(), 60);
  EXPECT_GT(mixed.held_tokens(), 0);
}

TEST_F(FeatureCacheTest, PaddingIsZeroAndTheFileHasNoName) {
  FeatureCache disk(run.target, run.data.train, {.taps = taps, .disk_bytes = 1 << 20, .folder = run.folder});
  const at::Tensor row = row_of_all(disk);
  EXPECT_EQ(row.size(0), tokens + 5);
  EXPECT_EQ(row.narrow(0, tokens, 5).abs().sum().item<float>(), 0.0f);
  EXPECT_TRUE(std::filesystem::is_empty(run.folder));
}

TEST_F(FeatureCacheTest, ADiskThatCannotBeUsedIsToldOnceAndDoesNoHarm) {
  std::vector<std::string> notices;
  FeatureCache cache(
      run.target, run.data.train,
      {.taps = taps, .disk_bytes = 1 << 20, .folder = run.folder / "missing", .notice = [&](const std::string& text) {
         notices.push_back(text);
       }});
  FeatureCache reference(run.target, run.data.train, {.taps = taps, .memory_bytes = 1 << 20, .folder = run.folder});
  EXPECT_TRUE(row_of_all(cache).equal(row_of_all(reference)));
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("missing"), std::string::npos) << notices[0];
}

}  // namespace
}  // namespace draftsmith
