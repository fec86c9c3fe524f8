// What this process holds, as the kernel counts it; 0 where it does not say.
#pragma once

#include <cstdint>

namespace draftsmith {

std::int64_t resident_bytes();
// The most it held since it started, or since reset_peak_memory() (which gives free memory back first, so that what is
// measured afterwards is what is used).
std::int64_t peak_resident_bytes();
void reset_peak_memory();

// From now on freed blocks of 4 MB and more go back to the kernel at once. glibc would raise that bound to 32 MB and
// keep the holes between blocks of other lifetimes, which doubles what a training step holds.
void give_large_blocks_back();

}  // namespace draftsmith
