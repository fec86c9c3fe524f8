// The memory that this process holds, as the kernel counts it; 0 where the kernel does not say.
#pragma once

#include <cstdint>

namespace draftsmith {

std::int64_t resident_bytes();
// The most that the process held since it started, or since reset_peak_memory(). The reset gives free memory back
// first, so that what is measured afterwards is what is used.
std::int64_t peak_resident_bytes();
void reset_peak_memory();

// From now on blocks of 4 MB and more are mapped one by one, so that they go back to the kernel when they are freed.
// glibc would raise that bound to 32 MB and keep the holes between blocks of other lifetimes, which doubles what a
// training step holds.
void lower_mmap_threshold();

}  // namespace draftsmith
