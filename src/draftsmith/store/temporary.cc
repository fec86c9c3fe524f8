#include "draftsmith/store/temporary.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace fs = std::filesystem;

namespace {

std::string prefix_of(const fs::path& final_path) { return "." + final_path.filename().string() + ".tmp-"; }

// True when only digits and '-' follow the prefix in `name`, so that nobody else's file is removed.
bool is_temporary_name(const std::string& name, const std::string& prefix) {
  if (name.size() <= prefix.size() || name.compare(0, prefix.size(), prefix) != 0) return false;
  return name.find_first_not_of("0123456789-", prefix.size()) == std::string::npos;
}

void remove_left_overs(const fs::path& final_path) {
  const std::string prefix = prefix_of(final_path);
  std::error_code error;
  for (fs::directory_iterator it(folder_of(final_path), error), end; !error && it != end; it.increment(error)) {
    if (!is_temporary_name(it->path().filename().string(), prefix)) continue;
    const int descriptor = open(it->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) continue;
    std::error_code ignored;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) fs::remove_all(it->path(), ignored);
    close(descriptor);
  }
}

// Another writer may have removed the name between making and locking it.
bool still_there(const Temporary& made) {
  struct stat by_name, by_descriptor;
  return lstat(made.path.c_str(), &by_name) == 0 && fstat(made.descriptor, &by_descriptor) == 0 &&
         by_name.st_ino == by_descriptor.st_ino && by_name.st_dev == by_descriptor.st_dev;
}

int open_new(const fs::path& path, TemporaryKind kind) {
  if (kind == TemporaryKind::kFile) return open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (mkdir(path.c_str(), 0777) != 0) return -1;
  return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

}  // namespace

Temporary make_temporary(const fs::path& final_path, TemporaryKind kind) {
  static std::atomic<unsigned> counter{0};
  remove_left_overs(final_path);
  for (int attempt = 0; attempt < 100; ++attempt) {
    Temporary made;
    made.path = folder_of(final_path) / text_of(prefix_of(final_path), getpid(), "-", counter.fetch_add(1));
    made.descriptor = open_new(made.path, kind);
    if (made.descriptor < 0) {
      if (errno == EEXIST) continue;
      fail("cannot write ", final_path.string(), ": ", error_text(errno));
    }
    flock(made.descriptor, LOCK_EX | LOCK_NB);  // on file systems without locks the name alone must do
    if (still_there(made)) return made;
    close(made.descriptor);
  }
  fail("cannot write ", final_path.string(), ": no temporary name beside it is free");
}

fs::path final_path_of(const fs::path& path) {
  fs::path result = path.has_filename() ? path : path.parent_path();
  std::error_code error;
  if (fs::is_symlink(result, error)) {
    const fs::path followed = fs::weakly_canonical(result, error);
    if (!error) result = followed;
  }
  const fs::path name = result.filename();
  require(!name.empty() && name != "." && name != "..", "cannot write '", path.string(),
          "': it is not the name of a file or folder that can be replaced; name a new one");
  return result;
}

fs::path folder_of(const fs::path& path) {
  const fs::path folder = path.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

void sync_folder(const fs::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

std::string error_text(int error) { return std::strerror(error); }

}  // namespace draftsmith
