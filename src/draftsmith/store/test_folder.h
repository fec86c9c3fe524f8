// For tests: a folder that is deleted with its object, and a check that a UserError holds certain words.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "draftsmith/base/check.h"

namespace draftsmith {

inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "draftsmith-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::vector<std::string> names() const { return names_in(path_); }

 private:
  std::filesystem::path path_;
};

}  // namespace draftsmith

// Expects that `statement` throws a UserError whose text holds both parts.
#define EXPECT_USER_ERROR(statement, part1, part2)                                             \
  do {                                                                                         \
    try {                                                                                      \
      statement;                                                                               \
      ADD_FAILURE() << "no error from " #statement;                                            \
    } catch (const ::draftsmith::UserError& user_error) {                                      \
      const std::string what = user_error.what();                                              \
      EXPECT_NE(what.find(part1), std::string::npos) << "no '" << (part1) << "' in: " << what; \
      EXPECT_NE(what.find(part2), std::string::npos) << "no '" << (part2) << "' in: " << what; \
    }                                                                                          \
  } while (false)
