#include "draftsmith/base/memory.h"

#include <malloc.h>

#include <fstream>
#include <string>

namespace draftsmith {
namespace {

// A line "Name:   123 kB" of /proc/self/status, in bytes.
std::int64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.compare(0, name.size(), name) == 0) return std::stoll(line.substr(name.size())) * 1024;
  }
  return 0;
}

}  // namespace

std::int64_t resident_bytes() { return status_bytes("VmRSS:"); }

std::int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

void reset_peak_memory() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

void lower_mmap_threshold() {
  constexpr int kLargeBlock = 4'000'000, kKeptAtTheTop = 256 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargeBlock);
  ::mallopt(M_TRIM_THRESHOLD, kKeptAtTheTop);  // else every smaller block at the top would come and go too
}

}  // namespace draftsmith
