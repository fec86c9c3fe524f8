// A file that appears under its name whole or not at all: bytes go to a temporary name beside it, commit() makes them
// durable and renames. Destroyed without commit(), it leaves nothing behind and an older file of that name untouched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace draftsmith {

class WholeFile {
 public:
  explicit WholeFile(const std::filesystem::path& file);  // UserError naming `file` when it cannot be created
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::span<const std::byte> bytes);  // UserError naming the file when the disk is full etc.
  void commit();                                 // once, as the last call

 private:
  std::filesystem::path file_, temporary_;
  int descriptor_ = -1;
};

}  // namespace draftsmith
