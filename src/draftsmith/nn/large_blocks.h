// A cache of the memory of large tensors. A training step makes the same tensors each time, and a page that the kernel
// hands out anew costs several times what it costs to fill it. Freed blocks are cached and serve requests of almost the
// same size. The cache never makes the process larger: blocks in use and cached blocks together stay at or below the
// most that was in use at once so far.
#pragma once

namespace draftsmith {

// From now on all CPU tensors of 4 MB and more take their memory from the cache; smaller ones come from the heap as
// before.
void install_block_cache();

// Gives the cached blocks back to the kernel.
void empty_block_cache();

}  // namespace draftsmith
