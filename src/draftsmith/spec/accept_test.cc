#include "draftsmith/spec/accept.h"

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

using Tokens = std::vector<std::int32_t>;
using Steps = std::vector<DecodeStep>;

AcceptanceStats stats_of(std::initializer_list<Steps> requests) {
  AcceptanceStats stats;
  for (const Steps& steps : requests) stats.add_request(steps);
  return stats;
}

TEST(AcceptedPrefix, EndsAtTheFirstDifference) {
  EXPECT_EQ(accepted_prefix(Tokens{1, 2, 3}, Tokens{1, 2, 3, 4}), 3);
  EXPECT_EQ(accepted_prefix(Tokens{1, 2, 3}, Tokens{1, 9, 3, 4}), 1);  // right after wrong does not count
  EXPECT_EQ(accepted_prefix(Tokens{1, 2, 3}, Tokens{9, 2, 3, 4}), 0);
  EXPECT_EQ(accepted_prefix(Tokens{}, Tokens{4}), 0);
  EXPECT_EQ(accepted_prefix(Tokens{1, 2, 3}, Tokens{1, 2}), 2);
  EXPECT_EQ(accepted_prefix(Tokens{1}, Tokens{}), 0);
}

// Four blocks of 3 drafts have 3, 2, 1 and 0 right. The mean is 1.5 drafts, or 2.5 tokens with the target's own.
TEST(AcceptanceStats, MeansDoNotDependOnTheGrouping) {
  const DecodeStep three{3, 3}, two{3, 2}, one{3, 1}, none{3, 0};
  const std::vector<AcceptanceStats> groupings = {stats_of({{three, one}, {two, none}}),
                                                  stats_of({{three, two, one, none}}),
                                                  stats_of({{three}, {two}, {one}, {none}})};
  for (const AcceptanceStats& stats : groupings) {
    EXPECT_EQ(stats.tau_over_steps(), 2.5);
    EXPECT_EQ(stats.num_steps(), 4);
    EXPECT_EQ(stats.acceptance_per_slot(), (std::vector<double>{0.75, 0.5, 0.25}));
  }
  AcceptanceStats rank0 = stats_of({{three, one}});
  const AcceptanceStats rank1 = stats_of({{two, none}});
  rank0.merge(rank1);
  EXPECT_EQ(rank0.tau_over_steps(), 2.5);
  EXPECT_EQ(rank0.num_requests(), 2);
}

TEST(AcceptanceStats, ARightDraftAfterAWrongOneDoesNotCount) {
  const std::int64_t accepted = accepted_prefix(Tokens{5, 6, 7}, Tokens{5, 0, 7, 8});
  const AcceptanceStats stats = stats_of({{DecodeStep{3, accepted}}});
  EXPECT_EQ(stats.tau_over_steps(), 2.0);
  EXPECT_EQ(stats.acceptance_per_slot(), (std::vector<double>{1, 0, 0}));
}

TEST(AcceptanceStats, CutStepsAreCountedApart) {
  const AcceptanceStats stats = stats_of({{{3, 3}, {3, 2}, {3, 1}, {3, 0}, {1, 1, true}}, {{1, 0, true}}});
  EXPECT_EQ(stats.tau_over_steps(), 2.5);
  EXPECT_EQ(stats.tau_over_requests(), 2.5);  // the second request has no whole step
  EXPECT_EQ(stats.num_steps(), 4);
  EXPECT_EQ(stats.num_cut_steps(), 2);
  EXPECT_EQ(stats.num_requests(), 2);
  EXPECT_EQ(stats.acceptance_per_slot(), (std::vector<double>{0.75, 0.5, 0.25}));
}

TEST(AcceptanceStats, RequestsWeighTheSameHoweverLong) {
  const AcceptanceStats stats = stats_of({{{3, 3}}, {{3, 0}, {3, 0}, {3, 0}}});
  EXPECT_EQ(stats.tau_over_steps(), 7.0 / 4);
  EXPECT_EQ(stats.tau_over_requests(), 2.5);
}

TEST(AcceptanceStats, ShorterStepsOfferFewerSlots) {
  const AcceptanceStats stats = stats_of({{{3, 3}, {1, 1}, {1, 0}, {0, 0}}});
  EXPECT_EQ(stats.acceptance_per_slot(), (std::vector<double>{2.0 / 3, 1, 1}));
  EXPECT_EQ(stats.tau_over_steps(), 8.0 / 4);
}

TEST(AcceptanceStats, NothingGivesZeroes) {
  AcceptanceStats stats;
  EXPECT_EQ(stats.tau_over_steps(), 0);
  EXPECT_EQ(stats.tau_over_requests(), 0);
  EXPECT_TRUE(stats.acceptance_per_slot().empty());
  stats.add_request({});
  EXPECT_EQ(stats.tau_over_requests(), 0);
  EXPECT_EQ(stats.num_requests(), 1);
  stats.merge(stats);
  EXPECT_EQ(stats.num_requests(), 2);
}

TEST(AcceptanceStats, MergingIsAddingAllRequests) {
  AcceptanceStats left = stats_of({{{3, 1}, {3, 2}}}), all = left;
  const Steps longer = {{7, 6}, {7, 7}, {7, 0, true}};
  AcceptanceStats right;
  right.add_request(longer);
  all.add_request(longer);
  left.merge(right);
  EXPECT_EQ(left.tau_over_steps(), all.tau_over_steps());
  EXPECT_EQ(left.tau_over_requests(), all.tau_over_requests());
  EXPECT_EQ(left.acceptance_per_slot(), all.acceptance_per_slot());
  EXPECT_EQ(left.num_cut_steps(), all.num_cut_steps());
}

}  // namespace
}  // namespace draftsmith
