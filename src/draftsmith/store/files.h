// Writes files and folders that appear whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace draftsmith {

// Returns the whole file as text. Throws a UserError that names it when it cannot be read or is larger than max_bytes.
std::string read_text_file(const std::filesystem::path& file, std::size_t max_bytes = std::size_t{1} << 30);

// Writes a temporary file beside `file`, makes it durable and renames it. Throws a UserError that names the path when
// that fails, for instance because the disk is full.
void write_text_file(const std::filesystem::path& file, std::string_view text);

// Makes `folder` by filling a temporary folder beside it and renaming: fill(temporary) writes the files. An existing
// `folder` is exchanged for the new one and then removed; it is refused when it holds anything (a file or folder
// directly in it) that the new one lacks, since that would be deleted. Whatever fill() throws, the old folder stays as
// it was. Left-over temporaries of earlier crashes are removed.
void write_folder(const std::filesystem::path& folder, const std::function<void(const std::filesystem::path&)>& fill);

// Throws a UserError unless files can be created in `folder`, which is made if missing. Call it before long work
// starts.
void require_writable_folder(const std::filesystem::path& folder);

// Locks `folder` for the process that writes in it, with the file .lock there, for as long as this object lives. The
// constructor throws a UserError when another process holds the lock.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

}  // namespace draftsmith
