#include "draftsmith/store/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <string_view>

#include "draftsmith/base/check.h"
#include "draftsmith/store/temporary.h"

namespace draftsmith {

MappedFile::MappedFile(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not wait for its writer
  require(descriptor >= 0, "cannot read ", file.string(), ": ", error_text(errno));
  struct stat status;
  const bool regular = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const std::size_t size = regular ? static_cast<std::size_t>(status.st_size) : 0;
  void* address = size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0) : nullptr;
  const int error = errno;
  close(descriptor);
  require(regular, "cannot read ", file.string(), ": it is not a file");
  require(address != MAP_FAILED, "cannot map ", file.string(), ": ", error_text(error));
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string wrong_file_hint(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 512));
  if (text.empty()) return "; it is empty";
  if (text.starts_with("version https://git-lfs.github.com/")) {
    return "; it looks like a git-lfs pointer, so fetch the real file with `git lfs pull`";
  }
  if (text.starts_with("GGUF")) return "; it looks like a GGUF file";
  if (text.starts_with("PK\x03\x04")) return "; it looks like a ZIP or PyTorch file";
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n\xef\xbb\xbf"), text.size()));
  std::string lower(text.substr(0, 16));
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower.starts_with("<!doctype") || lower.starts_with("<html") || lower.starts_with("<?xml") ||
      lower.starts_with("<head")) {
    return "; it looks like a web page, so the download went wrong";
  }
  return "";
}

}  // namespace draftsmith
