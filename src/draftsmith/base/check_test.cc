#include "draftsmith/base/check.h"

#include <gtest/gtest.h>

#include <string>

namespace draftsmith {
namespace {

TEST(Check, RequireThrowsTheUsersErrorWithItsParts) {
  EXPECT_NO_THROW(require(true, "unused"));
  try {
    require(false, "tensor '", "a", "' has ", 3, " rows");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "tensor 'a' has 3 rows");
  }
}

TEST(Check, OurOwnFaultIsNoUserError) {
  try {
    DRAFTSMITH_ASSERT(1 + 1 == 3);
    FAIL();
  } catch (const UserError&) {
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_NE(std::string(error.what()).find("1 + 1 == 3"), std::string::npos);
  }
}

TEST(Check, AUsageErrorIsAUserError) { EXPECT_THROW(throw UsageError("x"), UserError); }

}  // namespace
}  // namespace draftsmith
