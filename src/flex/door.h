// What a call is asked at the door, once, in words; inside nothing is checked again.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include "flex/attention.h"
#include "flex/cpu/kernel_types.h"

namespace flex::detail {

[[noreturn]] inline void refuse(const char* where, const std::string& text) {
  throw Error(std::string("[flex.") + where + "] " + text);
}

inline std::string sizes_of(const std::array<std::int64_t, 4>& size) {
  std::string out = "[";
  for (std::size_t i = 0; i < 4; ++i) out += (i > 0 ? ", " : "") + std::to_string(size[i]);
  return out + "]";
}

template <class T>
void check_tensor(const char* where, const char* name, const View<T>& x, const std::array<std::int64_t, 4>& size) {
  if (x.size != size) refuse(where, std::string(name) + " is " + sizes_of(x.size) + "; it must be " + sizes_of(size));
  const bool empty = size[0] * size[1] * size[2] * size[3] == 0;
  if (empty) return;
  if (x.data == nullptr) refuse(where, std::string(name) + " has no data");
  if (x.stride[3] != 1) refuse(where, std::string(name) + " must be dense in its last dimension (stride 1)");
}

template <class T>
void check_inputs(const char* where, const Inputs<T>& in, const BlockMask& mask) {
  const auto [batch, heads, queries, dim] = in.q.size;
  const std::int64_t kv_heads = in.context.k.size[1], context = in.context.k.size[2], block = in.block.k.size[2];
  if (dim < 1 || dim > kMaxDim)
    refuse(where, "head_dim is " + std::to_string(dim) + "; it must be 1 to " + std::to_string(kMaxDim));
  if (kv_heads < 1 || heads < 1 || heads % kv_heads != 0)
    refuse(where, "q has " + std::to_string(heads) + " heads and k " + std::to_string(kv_heads) +
                      "; q's must be a multiple of k's");
  check_tensor(where, "q", in.q, in.q.size);
  check_tensor(where, "context k", in.context.k, {batch, kv_heads, context, dim});
  check_tensor(where, "context v", in.context.v, {batch, kv_heads, context, dim});
  check_tensor(where, "block k", in.block.k, {batch, kv_heads, block, dim});
  check_tensor(where, "block v", in.block.v, {batch, kv_heads, block, dim});
  const BlockMaskShape& shape = mask.shape();
  if (shape.num_queries != queries || shape.num_context != context || shape.num_keys != context + block)
    refuse(where, "the mask is for " + std::to_string(shape.num_queries) + " queries, " +
                      std::to_string(shape.num_context) + " context and " +
                      std::to_string(shape.num_keys - shape.num_context) + " block keys; the tensors have " +
                      std::to_string(queries) + ", " + std::to_string(context) + " and " + std::to_string(block));
  if ((shape.num_batches != 1 && shape.num_batches != batch) || (shape.num_heads != 1 && shape.num_heads != heads))
    refuse(where, "the mask has " + std::to_string(shape.num_batches) + " batches and " +
                      std::to_string(shape.num_heads) + " heads; it needs 1 or " + std::to_string(batch) +
                      ", and 1 or " + std::to_string(heads));
  if (!(in.scale >= 0) || !std::isfinite(in.scale)) refuse(where, "scale must be positive");
}

inline void check_run(const char* where, const Run& run, std::int64_t needed) {
  if (!is_supported(run.isa)) refuse(where, "this machine cannot run " + std::string(name_of(run.isa)));
  if (run.executor.num_threads() < 1) refuse(where, "the executor has no thread");
  if (static_cast<std::int64_t>(run.workspace.size()) < needed)
    refuse(where,
           "the workspace has " + std::to_string(run.workspace.size()) + " bytes; it needs " + std::to_string(needed));
}

}  // namespace flex::detail
