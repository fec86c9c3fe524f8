#include "draftsmith/base/words.h"

#include <gtest/gtest.h>

#include <vector>

namespace draftsmith {
namespace {

TEST(DurationText, PicksTheUnit) {
  EXPECT_EQ(duration_text(3.4), "3s");
  EXPECT_EQ(duration_text(200), "3m 20s");
  EXPECT_EQ(duration_text(3720), "1h 02m");
  EXPECT_EQ(duration_text(59.6), "1m 00s");
  EXPECT_EQ(duration_text(-1), "0s");
}

TEST(CountText, KeepsFourDigitsAndShortensTheRest) {
  EXPECT_EQ(count_text(1234), "1234");
  EXPECT_EQ(count_text(15300), "15.3k");
  EXPECT_EQ(count_text(2.5), "2.5");
  EXPECT_EQ(count_text(1703998720), "1.7G");
}

TEST(WithCommas, PartsThousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(1703998720), "1,703,998,720");
  EXPECT_EQ(with_commas(-123456), "-123,456");
}

TEST(BytesText, IsInMegabytesUpToTenGigabytes) {
  EXPECT_EQ(bytes_text(0), "0 MB");
  EXPECT_EQ(bytes_text(812'400'000), "812 MB");
  EXPECT_EQ(bytes_text(9'999'400'000), "9999 MB");
  EXPECT_EQ(bytes_text(10'000'000'000), "10.0 GB");
  EXPECT_EQ(gigabytes_text(812'400'000), "0.81 GB");
  EXPECT_EQ(gigabytes_text(12'350'000'001), "12.35 GB");
}

TEST(Words, ShapesAreProducts) {
  EXPECT_EQ(shape_text(std::vector<std::int64_t>{3, 5}), "3 x 5");
  EXPECT_EQ(shape_text({}), "scalar");
}

TEST(Words, ValuesAreAsAPersonWritesThem) {
  EXPECT_EQ(value_text(6e-4), "0.0006");
  EXPECT_EQ(value_text(0.1), "0.1");
  EXPECT_EQ(value_text(std::int64_t{-3}), "-3");
  EXPECT_EQ(value_text(true), "true");
  EXPECT_EQ(value_text(std::vector<std::int64_t>{1, 8}), "[1, 8]");
}

}  // namespace
}  // namespace draftsmith
