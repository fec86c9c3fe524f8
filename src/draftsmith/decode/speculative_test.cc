#include "draftsmith/decode/speculative.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "draftsmith/decode/fake_target.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/draft/test_loaded.h"

namespace draftsmith {
namespace {

using Ids = std::vector<std::int32_t>;

// 4 -> 5 -> 9 -> 6 -> 7 -> 4, as in a text with an end of turn (9) in its middle.
TableTarget chain(Ids end_ids) { return TableTarget({{4, 5}, {5, 9}, {9, 6}, {6, 7}, {7, 4}}, std::move(end_ids)); }

Ids decode(TableTarget& target, const LoadedDrafter& drafter, const Ids& prompt, std::int64_t limit) {
  SpeculativeDecoder decoder(target, drafter, Place{.compute = at::kFloat});
  Ids streamed;
  DecodeOptions options{.max_new_tokens = limit};
  options.on_tokens = [&](std::span<const std::int32_t> tokens) {
    streamed.insert(streamed.end(), tokens.begin(), tokens.end());
  };
  const DecodeResult result = decoder.decode(prompt, options);
  EXPECT_EQ(streamed, result.tokens);
  EXPECT_EQ(result.ended,
            std::count(target.info().end_ids.begin(), target.info().end_ids.end(), result.tokens.back()) > 0);
  return result.tokens;
}

TEST(Decoding, EqualsPlainDecodingWhateverTheDrafterProposes) {
  for (const Ids& end_ids : {Ids{9}, Ids{2, 9}, Ids{2}}) {
    TableTarget target = chain(end_ids);
    for (const Ids& prompt : {Ids{4}, Ids{5}, Ids{7, 4, 5, 9, 6}}) {
      for (const std::int64_t limit : {1, 2, 3, 7, 8, 9, 20}) {
        const Ids plain = decode_plain(target, prompt, {.max_new_tokens = limit}).tokens;
        for (const std::uint64_t seed : {1, 2}) {
          EXPECT_EQ(decode(target, TableTarget::random_drafter(8, seed), prompt, limit), plain);
        }
        EXPECT_EQ(decode(target, target.constant_drafter(5, 8), prompt, limit), plain);
      }
    }
  }
}

TEST(Decoding, StopsExactlyAtTheEndIdOrTheLimit) {
  TableTarget target = chain({2, 9});
  const LoadedDrafter drafter = TableTarget::random_drafter(8, 1);
  EXPECT_EQ(decode(target, drafter, {4}, 8), (Ids{5, 9}));
  EXPECT_EQ(decode(target, drafter, {4}, 1), (Ids{5}));
  EXPECT_EQ(decode(target, drafter, {5}, 8), (Ids{9}));  // an end token as the very first output
  TableTarget endless = chain({2});
  EXPECT_EQ(decode(endless, drafter, {4}, 7), (Ids{5, 9, 6, 7, 4, 5, 9}));
}

TEST(Decoding, WholeAcceptedBlocksNeverPassTheLimit) {
  TableTarget target({{4, 5}, {5, 5}}, {});
  const LoadedDrafter drafter = target.constant_drafter(5, 8);
  SpeculativeDecoder decoder(target, drafter, Place{.compute = at::kFloat});
  for (const std::int64_t limit : {1, 2, 3, 7, 8, 9, 17, 18, 100}) {
    const DecodeResult result = decoder.decode(Ids{4}, {.max_new_tokens = limit});
    EXPECT_EQ(result.tokens, Ids(limit, 5));
    EXPECT_FALSE(result.ended);
    std::int64_t produced = 1;
    for (const DecodeStep& step : result.steps) {
      EXPECT_EQ(step.num_drafts, step.num_accepted);
      EXPECT_EQ(step.cut, step.num_drafts < 7);
      produced += step.num_accepted + 1;
    }
    EXPECT_EQ(produced, limit);
    EXPECT_EQ(static_cast<std::int64_t>(result.steps.size()), (limit - 1 + 7) / 8);
  }
}

TEST(Decoding, AnEndIdInsideAnAcceptedBlockCutsIt) {
  TableTarget target({{4, 5}, {5, 9}, {9, 9}}, {9});
  const LoadedDrafter drafter = target.constant_drafter(9, 8);
  SpeculativeDecoder decoder(target, drafter, Place{.compute = at::kFloat});
  const DecodeResult result = decoder.decode(Ids{4}, {.max_new_tokens = 50});
  EXPECT_EQ(result.tokens, (Ids{5, 9}));
  EXPECT_TRUE(result.ended);
  ASSERT_EQ(result.steps.size(), 1u);
  EXPECT_EQ(result.steps[0].num_accepted, 7);
  EXPECT_TRUE(result.steps[0].cut);
}

TEST(Decoding, OwnEndIdsReplaceTheTargets) {
  TableTarget target = chain({9});
  DecodeOptions options{.max_new_tokens = 6};
  options.end_ids = Ids{};
  EXPECT_EQ(decode_plain(target, Ids{4}, options).tokens, (Ids{5, 9, 6, 7, 4, 5}));
  options.end_ids = Ids{7};
  EXPECT_EQ(decode_plain(target, Ids{4}, options).tokens, (Ids{5, 9, 6, 7}));
}

TEST(Decoding, WholeBlocksRunWhileTheStepsProducedLessThanTheLimit) {
  TableTarget target({{4, 5}, {5, 5}}, {});
  const LoadedDrafter drafter = target.constant_drafter(5, 6);
  SpeculativeDecoder decoder(target, drafter, Place{.compute = at::kFloat});
  DecodeOptions options{.max_new_tokens = 14};
  options.limit_rule = LimitRule::kWholeBlocks;
  const DecodeResult result = decoder.decode(Ids{4}, options);
  EXPECT_EQ(result.tokens, Ids(14, 5));
  ASSERT_EQ(result.steps.size(), 3u);  // 6 + 6 + 6
  EXPECT_FALSE(result.steps[1].cut);
  EXPECT_TRUE(result.steps[2].cut);
}

TEST(Decoding, RequestsThatCannotBeServedAreRefusedInWords) {
  TableTarget target = chain({9});
  const LoadedDrafter drafter = TableTarget::random_drafter(8, 1);
  EXPECT_TRUE(says(error_of([&] { decode_plain(target, {}, {}); }), "prompt", "at least one token"));
  EXPECT_TRUE(says(error_of([&] { decode_plain(target, Ids{4}, {.max_new_tokens = 0}); }), "max_new_tokens is 0",
                   "at least 1"));
  EXPECT_TRUE(
      says(error_of([&] { decode_plain(target, Ids{4}, {.max_new_tokens = 256}); }), "256 new", "context of chain"));
  EXPECT_TRUE(says(error_of([&] { decode_plain(target, Ids{24}, {}); }), "token id 24", "0 to 23"));
  target.info_.can_rewind = false;
  EXPECT_TRUE(says(error_of([&] { SpeculativeDecoder(target, drafter, Place{.compute = at::kFloat}); }), "chain (fake)",
                   "decode without one"));
}

TEST(Decoding, ADrafterOfAnotherTargetIsRefused) {
  TableTarget target = chain({9});
  LoadedDrafter drafter = TableTarget::random_drafter(8, 1);
  target.info_.num_layers = 7;
  EXPECT_TRUE(says(error_of([&] { SpeculativeDecoder(target, drafter, Place{.compute = at::kFloat}); }),
                   "number of layers 6", "chain has 7"));
  target.info_.num_layers = 6;
  reconfigure(drafter, [](DrafterConfig& c) { c.mask_token_id = 24; });
  EXPECT_TRUE(says(error_of([&] { SpeculativeDecoder(target, drafter, Place{.compute = at::kFloat}); }),
                   "mask token 24", "the 24 ids of chain"));
}

TEST(GreedyChoices, TakeTheFirstLargest) {
  EXPECT_EQ(greedy_choices(at::tensor({1.f, 3.f, 3.f, 0.f, -1.f, -5.f}).view({2, 3})), (Ids{1, 0}));
}

}  // namespace
}  // namespace draftsmith
