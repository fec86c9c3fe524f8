// Computes masked attention, forward and backward, without scores or masks in memory.
//     s = scale * q k,  y = score(s),  p = softmax of y over the keys that the mask shows,  o = p v,
//     lse = log sum exp y
// q, o [B, Hq, Q, D]; keys and values come from two sources, context [B, Hkv, C, D] and block [B, Hkv, K - C, D]
// (either may be empty), and are numbered as one axis of K keys; Hq is a multiple of Hkv. T is float or BFloat16; sums
// are fp32. D is any width from 1 to 256; padding happens inside, and nothing beyond the caller's rows is read or
// written. A query that sees no key has o = 0, lse = -inf and gradients 0. The same call gives the same bits.
//
// The backend decides where a call runs: each has a public header with its own kind of Call (flex/cpu.h).
#pragma once

#include <cstdint>

#include "flex/block_mask.h"
#include "flex/score.h"
#include "flex/view.h"

namespace flex {

inline constexpr std::int64_t kMaxHeadDim = 256;

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

// Holds the results of forward and the incoming gradient.
template <class T>
struct Saved {
  View<const T> o, d_o;
  View<const float> lse;
};

// The gradients are written, not added to.
template <class T>
struct Gradients {
  View<T> dq;
  KeyValues<T> context, block;  // k: dk, v: dv
};

namespace detail {

// Holds the code that was compiled for a type of score, for every backend. FLEX_INSTANTIATE_SCORE(S)
// (flex/instantiate.h) defines it.
struct CompiledScore;
template <class S>
const CompiledScore& compiled_score();
template <>
const CompiledScore& compiled_score<Identity>();
template <>
const CompiledScore& compiled_score<SoftCap>();
template <>
const CompiledScore& compiled_score<Alibi>();
template <>
const CompiledScore& compiled_score<AdditiveBias>();

// Throws flex::Error for tensors that do not fit each other or the mask.
template <class T>
void check_inputs(const char* where, const Inputs<T>& in, const BlockMask& mask);
template <class T>
void check_forward(const Inputs<T>& in, const Outputs<T>& out, const BlockMask& mask);
template <class T>
void check_backward(const Inputs<T>& in, const Saved<T>& saved, const Gradients<T>& grads, const BlockMask& mask);

}  // namespace detail

// A backend gets a score as the caller's struct and the code that was compiled for its type.
struct AnyScore {
  const void* score;
  const detail::CompiledScore& compiled;
};

// Says how and where a call runs, and what it may use meanwhile. A backend derives its own. The arguments of its
// members have been checked.
class Call {
 public:
  virtual ~Call() = default;
  virtual void forward(const Inputs<float>& in, const Outputs<float>& out, const BlockMask& mask,
                       const AnyScore& score) const = 0;
  virtual void forward(const Inputs<BFloat16>& in, const Outputs<BFloat16>& out, const BlockMask& mask,
                       const AnyScore& score) const = 0;
  virtual void backward(const Inputs<float>& in, const Saved<float>& saved, const Gradients<float>& grads,
                        const BlockMask& mask, const AnyScore& score) const = 0;
  virtual void backward(const Inputs<BFloat16>& in, const Saved<BFloat16>& saved, const Gradients<BFloat16>& grads,
                        const BlockMask& mask, const AnyScore& score) const = 0;
};

// Both throw flex::Error for tensors that do not fit together.
template <class T, Score S = Identity>
void forward(const Inputs<T>& in, const Outputs<T>& out, const BlockMask& mask, const Call& call, const S& score = {}) {
  detail::check_forward(in, out, mask);
  call.forward(in, out, mask, {&score, detail::compiled_score<S>()});
}

template <class T, Score S = Identity>
void backward(const Inputs<T>& in, const Saved<T>& saved, const Gradients<T>& grads, const BlockMask& mask,
              const Call& call, const S& score = {}) {
  detail::check_backward(in, saved, grads, mask);
  call.backward(in, saved, grads, mask, {&score, detail::compiled_score<S>()});
}

}  // namespace flex
