// Maps a file as bytes. The mapping is private and read-only; spans into it live as long as the object.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace draftsmith {

class MappedFile {
 public:
  // Throws a UserError that names `file` unless it is a regular file that can be read.
  explicit MappedFile(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// Says what a file of the wrong kind seems to be, as the end of a sentence ("; it looks like a web page ..."). Returns
// "" when it looks like nothing known.
std::string wrong_file_hint(std::span<const std::byte> bytes);

}  // namespace draftsmith
