#include "draftsmith/base/strings.h"

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

TEST(Shown, IsOneShortLineWhateverTheText) {
  EXPECT_EQ(shown("blk.0.attn_q.weight"), "'blk.0.attn_q.weight'");
  EXPECT_EQ(shown(std::string_view("a\0b\n", 4)), "'a?b?'");
  EXPECT_EQ(shown(std::string(500, 'x')), "'" + std::string(80, 'x') + "...'");
  EXPECT_EQ(shown(""), "''");
}

}  // namespace
}  // namespace draftsmith
