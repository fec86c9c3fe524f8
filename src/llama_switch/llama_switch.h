// A switch for one group of llama.cpp's CPU kernels (ggml's "llamafile" matrix products). They serve only passes of two
// and more tokens and round unlike the kernels of one-token passes. A quantised model amplifies that: SmolLM2 in Q4_1
// gave logits that differ by more than 2 between a block pass and single passes. While it is off (as at the start), a
// block pass gives the very bits of single passes, and decoding with a drafter is lossless to the bit. While it is on,
// long passes over BF16 weights are nearly three times faster; the hidden states of training may use that, because
// nothing is compared with them.
//
// The switch stands in front of llamafile_sgemm through the linker (--wrap, see cmake/FindLlama.cmake).
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// Lets the kernels run (on != 0) or not, for the whole process. Do not call it while a pass runs.
void llama_switch_quick_kernels(int on);

#ifdef __cplusplus
}
#endif
