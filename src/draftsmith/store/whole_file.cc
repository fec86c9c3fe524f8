#include "draftsmith/store/whole_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "draftsmith/base/check.h"
#include "draftsmith/store/temporary.h"

namespace draftsmith {
namespace fs = std::filesystem;

WholeFile::WholeFile(const fs::path& file) : file_(final_path_of(file)) {
  std::error_code error;
  require(!fs::is_directory(file_, error), "cannot write ", file_.string(), ": a folder has this name");
  Temporary made = make_temporary(file_, TemporaryKind::kFile);
  temporary_ = std::move(made.path);
  descriptor_ = made.descriptor;
}

WholeFile::~WholeFile() {
  if (descriptor_ < 0) return;
  unlink(temporary_.c_str());
  close(descriptor_);
}

void WholeFile::write(std::span<const std::byte> bytes) {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // Linux writes at most 2 GiB a call
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (written < 0 && errno == EINTR) continue;
    require(written > 0, "cannot write ", file_.string(), ": ", error_text(written < 0 ? errno : ENOSPC),
            "; what was there before is unchanged");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void WholeFile::commit() {
  DRAFTSMITH_ASSERT(descriptor_ >= 0);
  require(fsync(descriptor_) == 0, "cannot write ", file_.string(), ": ", error_text(errno));
  require(rename(temporary_.c_str(), file_.c_str()) == 0, "cannot write ", file_.string(), ": ", error_text(errno));
  close(descriptor_);
  descriptor_ = -1;
  sync_folder(folder_of(file_));
}

}  // namespace draftsmith
