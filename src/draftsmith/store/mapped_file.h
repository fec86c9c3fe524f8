// A file seen as bytes. The mapping is private and read-only; spans into it live as long as the object.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace draftsmith {

class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& file);  // UserError naming `file`; only regular files
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// What a file that is not what it should be seems to be instead, as the end of a sentence: "; it looks like a web page
// ...".
// "" when it looks like nothing known.
std::string wrong_file_hint(std::span<const std::byte> bytes);

}  // namespace draftsmith
