// Makes temporary files and folders beside the names that they will get. Only this room includes it.
//
// A temporary of NAME is called ".NAME.tmp-<pid>-<n>". Its owner holds a lock (flock) on it for as long as it lives, so
// that the next writer of NAME removes what a crash left over, but not the work of a live process.
#pragma once

#include <filesystem>
#include <string>

namespace draftsmith {

enum class TemporaryKind { kFile, kFolder };

struct Temporary {
  std::filesystem::path path;
  int descriptor = -1;  // open and locked; closing it gives the lock up
};

// Makes an empty temporary beside `final_path`, after removing what crashed writers of the same name left over. Throws
// a UserError that names `final_path`.
Temporary make_temporary(const std::filesystem::path& final_path, TemporaryKind kind);

// Returns the path that a write to `path` really goes to: trailing slashes are dropped and links followed. Throws a
// UserError for names that cannot be replaced ("/", "..").
std::filesystem::path final_path_of(const std::filesystem::path& path);

// Returns the folder that holds `path` ("." for a bare name).
std::filesystem::path folder_of(const std::filesystem::path& path);

// Makes renames in `folder` durable. File systems that cannot do this are left alone.
void sync_folder(const std::filesystem::path& folder);

std::string error_text(int error);  // "No space left on device"

}  // namespace draftsmith
