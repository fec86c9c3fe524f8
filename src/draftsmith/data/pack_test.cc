// Tests the laws of packs and anchors.
#include "draftsmith/data/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <set>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

// Makes fully supervised documents of the given lengths. Token ids count on over the whole set, so each is unique.
DataSet all_supervised(const std::vector<std::int64_t>& lengths) {
  DataSet data;
  std::int32_t next = 0;
  for (std::int64_t length : lengths) {
    std::vector<std::int32_t> tokens(length);
    std::iota(tokens.begin(), tokens.end(), next);
    next += static_cast<std::int32_t>(length);
    data.add_document(tokens, std::vector<std::uint8_t>(length, 1));
  }
  return data;
}

// Makes a pack with one document of `length` tokens, supervised in the given closed ranges.
Pack one_document(std::int64_t length, const std::vector<std::pair<int, int>>& supervised) {
  DataSet data;
  std::vector<std::uint8_t> mask(length, 0);
  for (auto [first, last] : supervised) std::fill(mask.begin() + first, mask.begin() + last + 1, std::uint8_t{1});
  data.add_document(std::vector<std::int32_t>(length, 7), mask);
  PackOptions options;
  options.row_length = options.max_length = length;
  const std::int64_t documents[] = {0};
  return make_pack(data, documents, options);
}

std::vector<std::int64_t> anchors_of(const Pack& pack) { return valid_anchors(pack, pack.documents[0]); }

using Ids = std::vector<std::int64_t>;

TEST(PackPlan, EveryTokenIsPlacedOnceOrReportedAsCut) {
  std::vector<std::int64_t> lengths = {121, 61, 60, 59, 1, 0, 61, 61};
  for (int turn = 0; turn < 2; ++turn, std::reverse(lengths.begin(), lengths.end())) {
    const DataSet data = all_supervised(lengths);
    PackOptions options;
    options.row_length = 60;
    for (std::int64_t multiple : {1, 16, 60}) {
      options.multiple = multiple;
      const PackPlan plan = plan_packs(data, options);
      EXPECT_EQ(plan.num_without_anchor, 2);  // the documents of 1 and 0 tokens
      EXPECT_EQ(plan.num_cut, 4);             // 121, 61, 61, 61
      std::map<std::int32_t, int> times;
      std::set<std::int64_t> placed;
      for (const auto& row : plan.packs) {
        ASSERT_FALSE(row.empty());
        const Pack pack = make_pack(data, row, options);
        EXPECT_LE(pack.length, 60);
        EXPECT_TRUE(pack.length % multiple == 0 || pack.length == 60) << pack.length;
        EXPECT_LT(pack.length - pack.num_tokens(), multiple);
        Rng rng(1, RngPurpose::kTest);
        EXPECT_FALSE(sample_anchors(pack, {}, rng).empty());
        for (const DocumentSpan& span : pack.documents) {
          EXPECT_TRUE(placed.insert(span.document).second);
          EXPECT_EQ(span.length, std::min<std::int64_t>(60, data.length(span.document)));
          for (std::int64_t i = 0; i < span.length; ++i) ++times[pack.token_ids[span.begin + i]];
        }
      }
      EXPECT_EQ(placed.size(), 6u);
      EXPECT_EQ(times.size(), 5u * 60 + 59);
      for (auto [token, count] : times) EXPECT_EQ(count, 1) << token;
    }
  }
}

TEST(PackPlan, ShorterMaxLengthCutsBeforeTheRowDoes) {
  const DataSet data = all_supervised({100, 20});
  PackOptions options;
  options.row_length = 60;
  options.max_length = 40;
  const PackPlan plan = plan_packs(data, options);
  ASSERT_EQ(plan.packs.size(), 1u);
  const Pack pack = make_pack(data, plan.packs[0], options);
  EXPECT_EQ(pack.length, 60);
  EXPECT_EQ(plan.num_cut, 1);
}

TEST(PackPlan, CutDocumentKeepsItsOwnLastTokenAndNoInventedEnd) {
  DataSet data;
  data.add_document(std::vector<std::int32_t>{10, 11, 12, 13, 2}, std::vector<std::uint8_t>{0, 1, 1, 1, 1});
  PackOptions options;
  options.row_length = 4;
  const Pack pack = make_pack(data, Ids{0}, options);
  EXPECT_EQ(pack.token_ids, (std::vector<std::int32_t>{10, 11, 12, 13}));
}

TEST(PackPlan, DocumentWhoseSupervisionIsCutAwayIsLeftOut) {
  DataSet data;
  data.add_document(std::vector<std::int32_t>(10, 1), std::vector<std::uint8_t>{0, 0, 0, 0, 0, 0, 0, 1, 1, 1});
  PackOptions options;
  options.row_length = 8;
  const PackPlan plan = plan_packs(data, options);
  EXPECT_TRUE(plan.packs.empty());
  EXPECT_EQ(plan.num_without_anchor, 1);
  EXPECT_EQ(plan.num_cut, 0);
}

TEST(PackPlan, OrderFollowsSeedAndEpoch) {
  const DataSet data = all_supervised(std::vector<std::int64_t>(200, 10));
  PackOptions options;
  options.row_length = 30;
  const auto first = plan_packs(data, options).packs;
  EXPECT_EQ(first, plan_packs(data, options).packs);
  options.epoch = 1;
  EXPECT_NE(first, plan_packs(data, options).packs);
  options.epoch = 0, options.seed = 2;
  EXPECT_NE(first, plan_packs(data, options).packs);
}

DataSet hundred_thousand_documents() {
  Rng rng(5, RngPurpose::kTest);
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < 100000; ++i) lengths.push_back(20 + rng.below(300));
  return all_supervised(lengths);
}

TEST(PackPlanBars, HundredThousandDocumentsTakeTwoSeconds) {
  const DataSet data = hundred_thousand_documents();
  PackOptions options;
  options.row_length = 512;
  const auto start = std::chrono::steady_clock::now();
  plan_packs(data, options);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(PackPlan, HundredThousandDocumentsAreWellFilled) {
  const DataSet data = hundred_thousand_documents();
  PackOptions options;
  options.row_length = 512;
  const PackPlan plan = plan_packs(data, options);
  const double filled = static_cast<double>(data.num_tokens()) / (512.0 * static_cast<double>(plan.packs.size()));
  EXPECT_GT(filled, 0.98);
}

TEST(PackPlan, LengthsOfZeroAreRefusedByName) {
  PackOptions options;
  options.row_length = 0;
  EXPECT_THROW(plan_packs(DataSet{}, options), UserError);
}

TEST(MakePack, PositionsRestartAndIdsAreOneEachDocument) {
  const DataSet data = all_supervised({40, 37});
  PackOptions options;
  options.row_length = 90;
  options.multiple = options.row_length;
  const Pack pack = make_pack(data, Ids{1, 0}, options);
  ASSERT_EQ(pack.length, 90);
  for (std::int64_t t = 0; t < 90; ++t) {
    const std::int64_t document = t < 37 ? 0 : t < 77 ? 1 : -1;
    EXPECT_EQ(pack.document_ids[t], document);
    EXPECT_EQ(pack.position_ids[t], document == 0 ? t : document == 1 ? t - 37 : 0);
    if (document < 0) {
      EXPECT_EQ(pack.token_ids[t], 0);
      EXPECT_EQ(pack.loss_mask[t], 0);
    }
  }
  EXPECT_EQ(pack.documents[1].document, 0);
  EXPECT_EQ(pack.documents[1].begin, 37);
}

TEST(MakePack, DocumentLooksTheSameWhateverStandsBesideIt) {
  const DataSet data = all_supervised({40, 37, 55});
  PackOptions options;
  options.row_length = 200;
  const Pack alone = make_pack(data, Ids{1}, options);
  for (const Ids& row : {Ids{0, 1}, Ids{2, 1}, Ids{0, 2, 1}, Ids{1, 0}}) {
    const Pack pack = make_pack(data, row, options);
    for (const DocumentSpan& span : pack.documents) {
      if (span.document != 1) continue;
      for (std::int64_t i = 0; i < span.length; ++i) {
        EXPECT_EQ(pack.token_ids[span.begin + i], alone.token_ids[i]);
        EXPECT_EQ(pack.position_ids[span.begin + i], alone.position_ids[i]);
        EXPECT_EQ(pack.loss_mask[span.begin + i], alone.loss_mask[i]);
      }
      Ids shifted = valid_anchors(pack, span);
      for (auto& a : shifted) a -= span.begin;
      EXPECT_EQ(shifted, anchors_of(alone));
    }
  }
}

TEST(Anchors, AreValidWhereTheTokenAndTheNextAreSupervised) {
  EXPECT_EQ(anchors_of(one_document(12, {{5, 9}})), (Ids{5, 6, 7, 8}));
  EXPECT_EQ(anchors_of(one_document(10, {{2, 4}, {7, 8}})), (Ids{2, 3, 7}));
}

TEST(Anchors, NeverSpanTwoDocuments) {
  DataSet data;
  data.add_document(std::vector<std::int32_t>{1, 2}, std::vector<std::uint8_t>{0, 1});
  data.add_document(std::vector<std::int32_t>{3, 4}, std::vector<std::uint8_t>{1, 0});
  const Pack pack = make_pack(data, Ids{0, 1}, {});
  for (const DocumentSpan& span : pack.documents) EXPECT_TRUE(valid_anchors(pack, span).empty());
}

TEST(Anchors, FewerValidPositionsThanAskedGiveExactlyThose) {
  Rng rng(1, RngPurpose::kAnchors);
  EXPECT_EQ(sample_anchors(one_document(20, {{5, 6}}), {}, rng), (Ids{5}));
  EXPECT_EQ(sample_anchors(one_document(20, {{17, 19}}), {}, rng), (Ids{17, 18}));
  EXPECT_TRUE(sample_anchors(one_document(20, {{4, 4}}), {}, rng).empty());
}

TEST(Anchors, BudgetIsPerDocumentNotStarvedByANeighbour) {
  const DataSet data = all_supervised({187, 3000});
  PackOptions options;
  options.row_length = options.max_length = 4000;
  const Pack pack = make_pack(data, Ids{0, 1}, options);
  Rng rng(1, RngPurpose::kAnchors);
  const auto count = [&](const std::vector<std::int64_t>& anchors, const DocumentSpan& span) {
    return std::count_if(anchors.begin(), anchors.end(),
                         [&](std::int64_t a) { return a >= span.begin && a < span.begin + span.length; });
  };
  const auto wide = sample_anchors(pack, {512, 1024}, rng);
  EXPECT_EQ(count(wide, pack.documents[0]), 186);
  EXPECT_EQ(count(wide, pack.documents[1]), 512);
  const auto narrow = sample_anchors(pack, {512, 512}, rng);  // shared out in proportion 186 : 512
  EXPECT_EQ(narrow.size(), 512u);
  EXPECT_NEAR(static_cast<double>(count(narrow, pack.documents[0])), 512.0 * 186 / 698, 1.0);
  EXPECT_EQ(sample_anchors(pack, {512, 2}, rng).size(), 2u);  // one each
  EXPECT_EQ(count(sample_anchors(pack, {512, 3}, rng), pack.documents[0]), 1);
  EXPECT_EQ(sample_anchors(pack, {512, 1}, rng).size(), 1u);
}

TEST(Anchors, AreDrawnUniformlyWithoutRepeats) {
  const Pack pack = one_document(12, {{2, 9}});  // 7 valid positions
  std::map<std::int64_t, int> times;
  for (std::uint64_t draw = 0; draw < 7000; ++draw) {
    Rng rng(3, RngPurpose::kAnchors, {draw});
    const auto anchors = sample_anchors(pack, {3, 512}, rng);
    ASSERT_EQ(anchors.size(), 3u);
    ASSERT_TRUE(anchors[0] < anchors[1] && anchors[1] < anchors[2]);
    for (auto a : anchors) ++times[a];
  }
  ASSERT_EQ(times.size(), 7u);
  for (auto [position, count] : times) EXPECT_NEAR(count, 3000, 150) << position;
}

TEST(Anchors, SameGeneratorSameAnchors) {
  const Pack pack = one_document(500, {{0, 499}});
  Rng a(9, RngPurpose::kAnchors, {4}), b(9, RngPurpose::kAnchors, {4});
  EXPECT_EQ(sample_anchors(pack, {50, 50}, a), sample_anchors(pack, {50, 50}, b));
}

}  // namespace
}  // namespace draftsmith
