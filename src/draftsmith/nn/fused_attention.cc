// flex behind autograd: views over torch's tensors, torch's threads, one workspace that is kept.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/custom_function.h>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/attention_paths.h"
#include "draftsmith/nn/step_clock.h"
#include "flex/cpu.h"

namespace draftsmith {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class TorchThreads final : public flex::Executor {
 public:
  int num_threads() const override { return at::get_num_threads(); }
  void run(const std::function<void(int thread)>& body) override {
    at::parallel_for(0, num_threads(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t thread = begin; thread < end; ++thread) body(static_cast<int>(thread));
    });
  }
};

// Grows to the largest call of this thread and stays: fresh memory would cost a page fault for every 4 KiB.
thread_local std::vector<std::byte> kept_workspace;

std::span<std::byte> workspace(std::int64_t bytes) {
  if (static_cast<std::int64_t>(kept_workspace.size()) < bytes) kept_workspace.resize(static_cast<std::size_t>(bytes));
  return kept_workspace;
}

// [H, N, D] as [1, H, N, D]; D must be dense.
template <class T, class U>
flex::View<T> view_of(const at::Tensor& x, U* data) {
  return {reinterpret_cast<T*>(data), {1, x.size(0), x.size(1), x.size(2)}, {0, x.stride(0), x.stride(1), 1}};
}
template <class T>
flex::View<const T> constant_view(const at::Tensor& x) {
  return view_of<const T>(x, x.const_data_ptr());
}
template <class T>
flex::View<T> mutable_view(const at::Tensor& x) {
  return view_of<T>(x, x.data_ptr());
}
flex::View<float> lse_view(const at::Tensor& lse) {
  return {lse.data_ptr<float>(), {1, lse.size(0), lse.size(1), 1}, {0, lse.stride(0), lse.stride(1), 1}};
}

at::Tensor dense_rows(const at::Tensor& x) { return x.stride(2) == 1 ? x : x.contiguous(); }

// Keys or values of the context, and of the blocks behind them.
at::Tensor context_of(const at::Tensor& x, std::int64_t queries) { return x.narrow(1, 0, x.size(1) - queries); }
at::Tensor block_of(const at::Tensor& x, std::int64_t queries) { return x.narrow(1, x.size(1) - queries, queries); }

// x = q, k, v.
template <class T>
flex::Inputs<T> inputs_of(const variable_list& x) {
  const std::int64_t n = x[0].size(1);
  return {constant_view<T>(x[0]),
          {constant_view<T>(context_of(x[1], n)), constant_view<T>(context_of(x[2], n))},
          {constant_view<T>(block_of(x[1], n)), constant_view<T>(block_of(x[2], n))}};
}

template <class T>
void run_forward(const variable_list& x, const flex::BlockMask& mask, const at::Tensor& o, const at::Tensor& lse) {
  TorchThreads threads;
  const flex::Inputs<T> in = inputs_of<T>(x);
  flex::forward(in, flex::Outputs<T>{mutable_view<T>(o), lse_view(lse)}, mask,
                flex::CpuCall{threads, workspace(flex::forward_workspace(in, mask, threads.num_threads()))});
}

template <class T>
void run_backward(const variable_list& x, const flex::BlockMask& mask, const at::Tensor& d_o, const variable_list& dx) {
  TorchThreads threads;
  const flex::Inputs<T> in = inputs_of<T>(x);
  const std::int64_t n = x[0].size(1);
  flex::backward(in, flex::Saved<T>{constant_view<T>(x[3]), constant_view<T>(d_o), lse_view(x[4])},
                 flex::Gradients<T>{mutable_view<T>(dx[0]),
                                    {mutable_view<T>(context_of(dx[1], n)), mutable_view<T>(context_of(dx[2], n))},
                                    {mutable_view<T>(block_of(dx[1], n)), mutable_view<T>(block_of(dx[2], n))}},
                 mask, flex::CpuCall{threads, workspace(flex::backward_workspace(in, mask, threads.num_threads()))});
}

struct FusedAttention : torch::autograd::Function<FusedAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::shared_ptr<const KeyRanges>& ranges) {
    const TimedPart timed(StepPart::kAttention);
    variable_list saved;
    for (const at::Tensor& x : {q, k, v}) {
      DRAFTSMITH_ASSERT(x.scalar_type() == q.scalar_type());
      saved.push_back(dense_rows(x));
    }
    // Rows of all heads side by side, as the next projection reads them.
    const at::Tensor o = at::empty({q.size(1), q.size(0), q.size(2)}, q.options()).transpose(0, 1);
    const at::Tensor lse = at::empty({q.size(0), q.size(1)}, q.options().dtype(at::kFloat));
    if (q.scalar_type() == at::kBFloat16) {
      run_forward<flex::BFloat16>(saved, *ranges->tiles, o, lse);
    } else {
      run_forward<float>(saved, *ranges->tiles, o, lse);
    }
    saved.push_back(o);
    saved.push_back(lse);
    ctx->save_for_backward(saved);
    save_ranges(ctx, ranges);
    return o;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const TimedPart timed(StepPart::kAttention);
    const std::shared_ptr<const KeyRanges> ranges = saved_ranges(ctx);
    const flex::BlockMask& mask = *ranges->tiles;
    const variable_list saved = ctx->get_saved_variables();
    variable_list dx;
    for (std::size_t i = 0; i < 3; ++i)
      dx.push_back(at::empty_strided(saved[i].sizes(), saved[i].strides(), saved[i].options()));
    const at::Tensor d_o = dense_rows(grads[0]);
    if (saved[0].scalar_type() == at::kBFloat16) {
      run_backward<flex::BFloat16>(saved, mask, d_o, dx);
    } else {
      run_backward<float>(saved, mask, d_o, dx);
    }
    dx.push_back(at::Tensor());
    return dx;
  }
};

}  // namespace

void release_attention_workspace() { kept_workspace = {}; }

at::Tensor fused_attention(const at::Tensor& q_HQD, const at::Tensor& k_HND, const at::Tensor& v_HND,
                           const std::shared_ptr<const KeyRanges>& ranges) {
  return FusedAttention::apply(q_HQD, k_HND, v_HND, ranges);
}

}  // namespace draftsmith
