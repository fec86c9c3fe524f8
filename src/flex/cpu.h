// This is the attention's CPU backend. It runs on threads and in memory that the caller lends, with the best
// instruction set of the machine. Results do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "flex/attention.h"
#include "flex/executor.h"
#include "flex/isa.h"

namespace flex {

// A call on the CPU. `workspace` must have the size that *_workspace gives, and belongs to the call while it runs.
struct CpuCall final : Call {
  CpuCall(Executor& executor_, std::span<std::byte> workspace_, Isa isa_ = default_isa())
      : executor(executor_), workspace(workspace_), isa(isa_) {}

  void forward(const Inputs<float>& in, const Outputs<float>& out, const BlockMask& mask,
               const AnyScore& score) const override;
  void forward(const Inputs<BFloat16>& in, const Outputs<BFloat16>& out, const BlockMask& mask,
               const AnyScore& score) const override;
  void backward(const Inputs<float>& in, const Saved<float>& saved, const Gradients<float>& grads,
                const BlockMask& mask, const AnyScore& score) const override;
  void backward(const Inputs<BFloat16>& in, const Saved<BFloat16>& saved, const Gradients<BFloat16>& grads,
                const BlockMask& mask, const AnyScore& score) const override;

  Executor& executor;
  std::span<std::byte> workspace;
  Isa isa;
};

// Both return the bytes of workspace for a number of threads, which are the same for every instruction set.
template <class T>
std::int64_t forward_workspace(const Inputs<T>& in, const BlockMask& mask, int num_threads);
template <class T>
std::int64_t backward_workspace(const Inputs<T>& in, const BlockMask& mask, int num_threads);

}  // namespace flex
