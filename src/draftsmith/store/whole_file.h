// Writes a file that appears under its name whole or not at all. Bytes go to a temporary file beside it, which commit()
// makes durable and renames. Without commit(), nothing is left behind and an older file of that name stays as it was.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace draftsmith {

class WholeFile {
 public:
  explicit WholeFile(const std::filesystem::path& file);  // throws a UserError that names `file`
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::span<const std::byte> bytes);  // throws a UserError, for instance when the disk is full
  void commit();                                 // call it once, last; throws a UserError

 private:
  std::filesystem::path file_, temporary_;
  int descriptor_ = -1;
};

}  // namespace draftsmith
