// Tests that values and fallbacks are read, and that every error names file and key.
#include "draftsmith/store/json_keys.h"

#include <gtest/gtest.h>

#include <functional>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(JsonKeys, GiveValuesAndFallbacks) {
  const JsonKeys keys(R"({"n": 3, "x": 0.5, "yes": true, "s": "a", "list": [1, 2], "names": ["b"], "none": null,
                          "inner": {"m": 4}})",
                      "f.json");
  EXPECT_EQ(keys.integer("n"), 3);
  EXPECT_EQ(keys.number("n"), 3.0);
  EXPECT_EQ(keys.number("x"), 0.5);
  EXPECT_TRUE(keys.flag("yes"));
  EXPECT_EQ(keys.text("s"), "a");
  EXPECT_EQ(keys.integers("list"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(keys.texts("names"), std::vector<std::string>{"b"});
  EXPECT_FALSE(keys.has("none"));
  EXPECT_EQ(keys.integer("none", 7), 7);
  EXPECT_EQ(keys.text("absent", "z"), "z");
  EXPECT_EQ(keys.object("inner").integer("m"), 4);
  EXPECT_FALSE(keys.object("absent").has("m"));
}

TEST(JsonKeys, RefuseByFileAndKey) {
  const JsonKeys keys(R"({"s": "a", "big": 18446744073709551615, "list": [1, "x"], "inner": {"m": "y"}})", "f.json");
  EXPECT_EQ(refusal([&] { keys.integer("absent"); }), "f.json: 'absent' is missing");
  EXPECT_EQ(refusal([&] { keys.integer("s"); }), "f.json: 's' must hold whole numbers");
  EXPECT_EQ(refusal([&] { keys.integer("big"); }), "f.json: 'big' is too large");
  EXPECT_EQ(refusal([&] { keys.number("s"); }), "f.json: 's' must be a number");
  EXPECT_EQ(refusal([&] { keys.flag("s"); }), "f.json: 's' must be true or false");
  EXPECT_EQ(refusal([&] { keys.text("big"); }), "f.json: 'big' must be a string");
  EXPECT_EQ(refusal([&] { keys.integers("list"); }), "f.json: 'list' must hold whole numbers");
  EXPECT_EQ(refusal([&] { keys.texts("list"); }), "f.json: 'list' must be a list of strings");
  EXPECT_EQ(refusal([&] { keys.texts("s"); }), "f.json: 's' must be a list of strings");
  EXPECT_EQ(refusal([&] { keys.object("s"); }), "f.json: 's' must be an object");
  EXPECT_EQ(refusal([&] { keys.object("inner").integer("m"); }), "f.json: 'inner.m' must hold whole numbers");
  EXPECT_EQ(refusal([] { JsonKeys("[1]", "f.json"); }), "f.json must hold a JSON object");
  EXPECT_NE(refusal([] { JsonKeys("{\"a\": ", "f.json"); }).find("is not valid JSON"), std::string::npos);
}

}  // namespace
}  // namespace draftsmith
