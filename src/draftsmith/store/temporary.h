// Temporary names beside what they will become, and the care they need. Inside the store room only.
//
// A temporary of NAME is called ".NAME.tmp-<pid>-<n>". Its owner holds a lock (flock) on it for as long as it lives, so
// that the next writer of NAME can tell a left-over of a crash, which it removes, from the work of somebody still
// alive.
#pragma once

#include <filesystem>
#include <string>

namespace draftsmith {

enum class TemporaryKind { kFile, kFolder };

struct Temporary {
  std::filesystem::path path;
  int descriptor = -1;  // open and locked; closing it gives the lock up
};

// Makes an empty temporary beside `final_path`, after removing the left-overs of crashed writers of the same name.
Temporary make_temporary(const std::filesystem::path& final_path, TemporaryKind kind);

// Where a write to `path` really goes: trailing slashes dropped, links followed. Refuses names that cannot be replaced
// ("/", "..").
std::filesystem::path final_path_of(const std::filesystem::path& path);

// The folder that holds `path` ("." for a bare name).
std::filesystem::path folder_of(const std::filesystem::path& path);

// Makes renames in `folder` durable. File systems that cannot do this are left alone.
void sync_folder(const std::filesystem::path& folder);

std::string error_text(int error);  // "No space left on device"

}  // namespace draftsmith
