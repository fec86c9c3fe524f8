// Folders are made beside their name and swapped in, so that a reader sees the old folder or the new one, never a
// mixture.
#include "draftsmith/store/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "draftsmith/base/check.h"
#include "draftsmith/store/temporary.h"
#include "draftsmith/store/whole_file.h"

namespace draftsmith {
namespace fs = std::filesystem;

namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

// Every file and folder under `folder`, then `folder` itself, is on the disk when this returns.
void sync_tree(const fs::path& folder, const fs::path& named) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_symlink() || !(entry.is_regular_file() || entry.is_directory())) continue;
    const Descriptor opened{open(entry.path().c_str(), O_RDONLY | O_CLOEXEC)};
    const bool synced = opened.fd >= 0 && (fsync(opened.fd) == 0 || entry.is_directory());
    require(synced, "cannot write ", named.string(), ": ", error_text(errno));
  }
  sync_folder(folder);
}

// Refuses to replace a folder that holds something the new one does not: it is the user's, and would be deleted.
void require_nothing_lost(const fs::path& old_folder, const fs::path& new_folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(old_folder)) {
    const fs::path name = entry.path().filename();
    require(fs::exists(fs::symlink_status(new_folder / name)), "will not replace ", old_folder.string(),
            ": it also holds '", name.string(),
            "', which would be deleted; choose another folder or remove the old one");
  }
}

// After this, `name` is what `temporary` was, and an older folder of that name, if any, is at `temporary`.
void swap_in(const fs::path& temporary, const fs::path& name) {
  if (!fs::exists(name)) {
    require(rename(temporary.c_str(), name.c_str()) == 0, "cannot write ", name.string(), ": ", error_text(errno));
    return;
  }
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, name.c_str(), RENAME_EXCHANGE) == 0) return;
  // Some file systems cannot exchange names. There nothing has the name for a moment, and on failure the old folder
  // goes back.
  const fs::path aside = temporary.string() + "0";  // still a temporary's name, so it is removed after a crash
  require(rename(name.c_str(), aside.c_str()) == 0, "cannot replace ", name.string(), ": ", error_text(errno));
  if (rename(temporary.c_str(), name.c_str()) != 0) {
    const int error = errno;
    (void)rename(aside.c_str(), name.c_str());
    fail("cannot write ", name.string(), ": ", error_text(error));
  }
  (void)rename(aside.c_str(), temporary.c_str());
}

// Makes a temporary folder; when this object goes, whatever has that name by then is deleted.
struct TemporaryFolder {
  Temporary made;
  explicit TemporaryFolder(const fs::path& name) : made(make_temporary(name, TemporaryKind::kFolder)) {}
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(made.path, ignored);
    close(made.descriptor);
  }
};

// Messages name the folder that the user named, not the temporary one.
std::string with_name(std::string text, const std::string& temporary, const std::string& name) {
  for (std::size_t at = text.find(temporary); at != std::string::npos; at = text.find(temporary, at + name.size())) {
    text.replace(at, temporary.size(), name);
  }
  return text;
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, "cannot create the folder ", folder.string(), ": ", error.message());
}

}  // namespace

std::string read_text_file(const fs::path& file, std::size_t max_bytes) {
  const Descriptor opened{open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  require(opened.fd >= 0, "cannot read ", file.string(), ": ", error_text(errno));
  std::string text;
  std::vector<char> chunk(std::size_t{1} << 16);
  while (true) {
    const ssize_t got = read(opened.fd, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    require(got >= 0, "cannot read ", file.string(), ": ", error_text(errno));
    if (got == 0) return text;
    require(static_cast<std::size_t>(got) <= max_bytes - text.size(), "cannot read ", file.string(),
            ": it is larger than ", max_bytes, " bytes");
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

void write_text_file(const fs::path& file, std::string_view text) {
  WholeFile whole(file);
  whole.write(std::as_bytes(std::span(text)));
  whole.commit();
}

void write_folder(const fs::path& folder, const std::function<void(const fs::path&)>& fill) {
  const fs::path name = final_path_of(folder);
  std::error_code ignored;
  require(!fs::exists(name, ignored) || fs::is_directory(name, ignored), "cannot write the folder ", name.string(),
          ": a file has this name");
  make_folders(folder_of(name));
  const TemporaryFolder temporary(name);
  try {
    fill(temporary.made.path);
    sync_tree(temporary.made.path, name);
    if (fs::exists(name)) require_nothing_lost(name, temporary.made.path);
    swap_in(temporary.made.path, name);
  } catch (const UsageError&) {
    throw;
  } catch (const UserError& error) {
    throw UserError(with_name(error.what(), temporary.made.path.string(), name.string()));
  } catch (const fs::filesystem_error& error) {
    fail("cannot write the folder ", name.string(), ": ", error.code().message());
  }
  sync_folder(folder_of(name));
}

void require_writable_folder(const fs::path& folder) {
  std::error_code ignored;
  require(!fs::exists(folder, ignored) || fs::is_directory(folder, ignored), "cannot write to ", folder.string(),
          ": it is a file, not a folder");
  make_folders(folder);
  const Temporary probe = make_temporary(folder / "probe", TemporaryKind::kFile);
  unlink(probe.path.c_str());
  close(probe.descriptor);
}

FolderLock::FolderLock(const fs::path& folder)
    : fd_(open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  // On file systems without locks the folder is used without one.
  if (fd_ < 0 || flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  close(fd_);
  fail(folder.string(), " is being written by another process; wait for it, or choose another folder");
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace draftsmith
