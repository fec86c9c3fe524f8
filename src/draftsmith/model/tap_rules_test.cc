#include "draftsmith/model/tap_rules.h"

#include <gtest/gtest.h>

#include "draftsmith/store/test_folder.h"

namespace draftsmith {
namespace {

using Taps = std::vector<std::int64_t>;

TEST(DefaultTaps, SpreadEvenlyWithHalvesToEven) {
  EXPECT_EQ(default_taps(5, 36), (Taps{1, 9, 17, 25, 33}));
  EXPECT_EQ(default_taps(5, 24), (Taps{1, 6, 11, 16, 21}));
  EXPECT_EQ(default_taps(5, 32), (Taps{1, 8, 15, 22, 29}));
  EXPECT_EQ(default_taps(5, 40), (Taps{1, 10, 19, 28, 37}));
  EXPECT_EQ(default_taps(5, 64), (Taps{1, 16, 31, 46, 61}));
  EXPECT_EQ(default_taps(5, 16), (Taps{1, 4, 7, 10, 13}));
  EXPECT_EQ(default_taps(5, 30), (Taps{1, 8, 14, 20, 27}));  // 7.5 and 20.5 go to the even neighbour
}

TEST(DefaultTaps, OneTapIsTheMiddle) {
  EXPECT_EQ(default_taps(1, 30), (Taps{15}));
  EXPECT_EQ(default_taps(1, 3), (Taps{1}));
}

TEST(DefaultTaps, ATooShallowTargetIsRefused) {
  EXPECT_USER_ERROR(default_taps(5, 6), "6 layers is not deep enough for 5 default taps", "");
  EXPECT_USER_ERROR(default_taps(1, 1), "not deep enough", "");
  EXPECT_USER_ERROR(default_taps(0, 30), "at least one tap", "");
}

TEST(CheckTaps, OnlyDistinctLayersBelowTheLast) {
  EXPECT_NO_THROW(check_taps(Taps{0, 2}, 4));
  EXPECT_NO_THROW(check_taps(Taps{2, 0, 1}, 4));
  EXPECT_USER_ERROR(check_taps(Taps{3}, 4), "tap 3 is the last layer", "");
  EXPECT_USER_ERROR(check_taps(Taps{4}, 4), "tap 4 is not a layer", "");
  EXPECT_USER_ERROR(check_taps(Taps{-1}, 4), "tap -1 is not a layer", "");
  EXPECT_USER_ERROR(check_taps(Taps{2, 2}, 4), "tap 2 is listed twice", "");
  EXPECT_USER_ERROR(check_taps(Taps{}, 4), "draft.taps is empty", "");
}

}  // namespace
}  // namespace draftsmith
