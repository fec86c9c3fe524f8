// Masked attention, forward and backward, without scores or masks in memory.
//     s = scale * q k,  y = score(s),  p = softmax of y over the keys that the mask shows,  o = p v,
//     lse = log sum exp y
// q, o [B, Hq, Q, D]; keys and values come from two sources, context [B, Hkv, C, D] and block [B, Hkv, K - C, D]
// (either may be empty), numbered through as one axis of K keys; Hq is a multiple of Hkv. T is float or BFloat16; sums
// are fp32. D is any width from 1 to 256; what is padded is padded inside, nothing beyond the caller's rows is read or
// written. A query that sees no key: o = 0, lse = -inf, gradients 0. Results do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "flex/block_mask.h"
#include "flex/executor.h"
#include "flex/isa.h"
#include "flex/score.h"
#include "flex/view.h"

namespace flex {

template <class T>
struct KeyValues {
  View<T> k, v;
};

template <class T>
struct Inputs {
  View<const T> q;
  KeyValues<const T> context, block;
  float scale = 0;  // 0: 1 / sqrt(D)
};

template <class T>
struct Outputs {
  View<T> o;
  View<float> lse;  // [B, Hq, Q, 1]
};

// What forward gave and the gradient that comes in.
template <class T>
struct Saved {
  View<const T> o, d_o;
  View<const float> lse;
};

// Written, not added to.
template <class T>
struct Gradients {
  View<T> dq;
  KeyValues<T> context, block;  // k: dk, v: dv
};

// How a call runs. `workspace` must hold what *_workspace says and belongs to the call while it runs.
struct Run {
  Executor& executor;
  std::span<std::byte> workspace;
  Isa isa = default_isa();
};

template <class T>
std::int64_t forward_workspace(const Inputs<T>& in, const BlockMask& mask, int num_threads);
template <class T>
std::int64_t backward_workspace(const Inputs<T>& in, const BlockMask& mask, int num_threads);

namespace detail {
struct KernelTable;
// Defined where FLEX_INSTANTIATE_SCORE(S) stands.
template <class S>
const KernelTable& kernels_for();
template <>
const KernelTable& kernels_for<Identity>();
template <>
const KernelTable& kernels_for<SoftCap>();
template <>
const KernelTable& kernels_for<Alibi>();
template <>
const KernelTable& kernels_for<AdditiveBias>();

template <class T>
void forward(const Inputs<T>& in, const Outputs<T>& out, const BlockMask& mask, const KernelTable& kernels,
             const void* score, const Run& run);
template <class T>
void backward(const Inputs<T>& in, const Saved<T>& saved, const Gradients<T>& grads, const BlockMask& mask,
              const KernelTable& kernels, const void* score, const Run& run);
}  // namespace detail

// Throws flex::Error, in words, for tensors that do not fit together.
template <class T, Score S = Identity>
void forward(const Inputs<T>& in, const Outputs<T>& out, const BlockMask& mask, const Run& run, const S& score = {}) {
  detail::forward(in, out, mask, detail::kernels_for<S>(), &score, run);
}

template <class T, Score S = Identity>
void backward(const Inputs<T>& in, const Saved<T>& saved, const Gradients<T>& grads, const BlockMask& mask,
              const Run& run, const S& score = {}) {
  detail::backward(in, saved, grads, mask, detail::kernels_for<S>(), &score, run);
}

}  // namespace flex
