// Checks a call once before it enters a backend, where nothing is checked again.
#include "flex/attention.h"

#include <array>
#include <cmath>
#include <string>

namespace flex::detail {
namespace {

std::string sizes_of(const std::array<std::int64_t, 4>& size) {
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

}  // namespace

template <class T>
void check_inputs(const char* where, const Inputs<T>& in, const BlockMask& mask) {
  const auto [batch, heads, queries, dim] = in.q.size;
  const std::int64_t kv_heads = in.context.k.size[1], context = in.context.k.size[2], block = in.block.k.size[2];
  if (dim < 1 || dim > kMaxHeadDim)
    refuse(where, "head_dim is " + std::to_string(dim) + "; it must be 1 to " + std::to_string(kMaxHeadDim));
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

template <class T>
void check_forward(const Inputs<T>& in, const Outputs<T>& out, const BlockMask& mask) {
  check_inputs("forward", in, mask);
  check_tensor("forward", "o", out.o, in.q.size);
  check_tensor("forward", "lse", out.lse, {in.q.size[0], in.q.size[1], in.q.size[2], 1});
}

template <class T>
void check_backward(const Inputs<T>& in, const Saved<T>& saved, const Gradients<T>& grads, const BlockMask& mask) {
  check_inputs("backward", in, mask);
  check_tensor("backward", "o", saved.o, in.q.size);
  check_tensor("backward", "dO", saved.d_o, in.q.size);
  check_tensor("backward", "lse", saved.lse, {in.q.size[0], in.q.size[1], in.q.size[2], 1});
  check_tensor("backward", "dq", grads.dq, in.q.size);
  check_tensor("backward", "context dk", grads.context.k, in.context.k.size);
  check_tensor("backward", "context dv", grads.context.v, in.context.k.size);
  check_tensor("backward", "block dk", grads.block.k, in.block.k.size);
  check_tensor("backward", "block dv", grads.block.v, in.block.k.size);
}

template void check_inputs<float>(const char*, const Inputs<float>&, const BlockMask&);
template void check_forward<float>(const Inputs<float>&, const Outputs<float>&, const BlockMask&);
template void check_backward<float>(const Inputs<float>&, const Saved<float>&, const Gradients<float>&,
                                    const BlockMask&);
template void check_inputs<BFloat16>(const char*, const Inputs<BFloat16>&, const BlockMask&);
template void check_forward<BFloat16>(const Inputs<BFloat16>&, const Outputs<BFloat16>&, const BlockMask&);
template void check_backward<BFloat16>(const Inputs<BFloat16>&, const Saved<BFloat16>&, const Gradients<BFloat16>&,
                                       const BlockMask&);

}  // namespace flex::detail
