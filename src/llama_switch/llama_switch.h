// A switch for one group of llama.cpp's CPU kernels (ggml's "llamafile" matrix products). They serve only passes of two
// and more tokens and round otherwise than the kernels of one-token passes, which a quantised model amplifies: SmolLM2
// in Q4_1 gave logits that differ by more than 2 between a block pass and single passes. Off (the start), a block pass
// gives the very bits of single passes and decoding with a drafter is lossless to the bit. On, long passes over BF16
// weights are nearly three times faster, which the hidden states of training may use: nothing is compared with them.
//
// The switch stands in front of llamafile_sgemm through the linker (--wrap, see cmake/FindLlama.cmake).
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// For the whole process: on != 0 lets the kernels run. Not to be changed while a pass runs.
void llama_switch_quick_kernels(int on);

#ifdef __cplusplus
}
#endif
