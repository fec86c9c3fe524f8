// Memory of large tensors that is used again. A page that the kernel hands out anew costs several times what it costs
// to fill it, and a training step makes the same tensors each time. What tensors let go is kept for others of nearly
// the same size, while blocks in use and kept ones together stay below the most that was in use at once: the peak is
// what it would be if nothing were kept.
#pragma once

namespace draftsmith {

// From now on, for all CPU tensors of 4 MB and more; smaller ones come from the heap as before.
void reuse_large_blocks();

// Gives back what is kept.
void release_large_blocks();

}  // namespace draftsmith
