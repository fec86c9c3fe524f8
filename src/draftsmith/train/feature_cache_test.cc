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

  PackFeatures pack_of_all(FeatureCache& cache) {
    std::vector<DocumentSpan> spans;
    std::int64_t begin = 0;
    for (std::int64_t d = 0; d < 6; ++d) {
      spans.push_back({.document = d, .begin = begin, .length = run.data.train.length(d)});
      begin += run.data.train.length(d);
    }
    tokens = begin;
    return cache.pack_features(spans, begin + 5);
  }
  std::int64_t tokens = 0;
};

void expect_same(const PackFeatures& got, const PackFeatures& expected) {
  EXPECT_TRUE(got.taps.equal(expected.taps));
  ASSERT_EQ(got.final_state.defined(), expected.final_state.defined());
  if (expected.final_state.defined()) {
    EXPECT_TRUE(got.final_state.equal(expected.final_state));
  }
}

TEST_F(FeatureCacheTest, MemoryDiskAndRecomputingGiveTheSameBits) {
  for (const bool final_state : {false, true}) {
    const auto options = [&](std::int64_t memory_bytes, std::int64_t disk_bytes) {
      return FeatureCacheOptions{.taps = taps,
                                 .with_final_state = final_state,
                                 .memory_bytes = memory_bytes,
                                 .disk_bytes = disk_bytes,
                                 .folder = run.folder};
    };
    FeatureCache memory(run.target, run.data.train, options(1 << 20, 0));
    const PackFeatures expected = pack_of_all(memory);
    expect_same(pack_of_all(memory), expected);
    EXPECT_EQ(memory.computed_tokens(), tokens);  // once only
    EXPECT_EQ(memory.held_tokens(), tokens);

    FeatureCache disk(run.target, run.data.train, options(0, 1 << 20));
    expect_same(pack_of_all(disk), expected);
    expect_same(pack_of_all(disk), expected);
    EXPECT_EQ(disk.computed_tokens(), tokens);

    FeatureCache nothing(run.target, run.data.train, options(0, 0));
    expect_same(pack_of_all(nothing), expected);
    expect_same(pack_of_all(nothing), expected);
    EXPECT_EQ(nothing.computed_tokens(), 2 * tokens);

    const std::int64_t bytes = feature_width(2, final_state, 32).bytes();
    EXPECT_EQ(bytes, token_bytes + (final_state ? 2 * 32 : 0));
    FeatureCache mixed(run.target, run.data.train, options(30 * bytes, 30 * bytes));
    expect_same(pack_of_all(mixed), expected);
    expect_same(pack_of_all(mixed), expected);
    EXPECT_LE(mixed.held_tokens(), mixed.capacity_tokens());
    EXPECT_EQ(mixed.capacity_tokens(), 60);
    EXPECT_GT(mixed.held_tokens(), 0);
  }
}

// A pack holds a document's features at the document's rows.
TEST_F(FeatureCacheTest, APackHoldsWhatTheTargetSaysOfItsDocuments) {
  FeatureCache cache(run.target, run.data.train,
                     {.taps = taps, .with_final_state = true, .memory_bytes = 1 << 20, .folder = run.folder});
  const PackFeatures pack = pack_of_all(cache);
  const std::int64_t begin = run.data.train.length(0), length = run.data.train.length(1);
  const DocumentFeatures alone = run.target.features(run.data.train.tokens_of(1), taps, true);
  EXPECT_TRUE(pack.taps.narrow(0, begin, length).equal(alone.taps));
  EXPECT_TRUE(pack.final_state.narrow(0, begin, length).equal(alone.final_state));
}

TEST_F(FeatureCacheTest, PaddingIsZeroAndTheFileHasNoName) {
  FeatureCache disk(run.target, run.data.train, {.taps = taps, .disk_bytes = 1 << 20, .folder = run.folder});
  const PackFeatures pack = pack_of_all(disk);
  EXPECT_EQ(pack.taps.size(0), tokens + 5);
  EXPECT_FALSE(pack.final_state.defined());
  EXPECT_EQ(pack.taps.narrow(0, tokens, 5).abs().sum().item<float>(), 0.0f);
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
  expect_same(pack_of_all(cache), pack_of_all(reference));
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("missing"), std::string::npos) << notices[0];
}

}  // namespace
}  // namespace draftsmith
