// flex behind autograd: views over torch's tensors, torch's threads, one workspace that is kept.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/attention_paths.h"
#include "flex/attention.h"

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
std::span<std::byte> workspace(std::int64_t bytes) {
  static thread_local std::vector<std::byte> kept;
  if (static_cast<std::int64_t>(kept.size()) < bytes) kept.resize(static_cast<std::size_t>(bytes));
  return kept;
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

template <class T>
flex::Inputs<T> inputs_of(const variable_list& x) {
  return {constant_view<T>(x[0]),
          {constant_view<T>(x[1]), constant_view<T>(x[2])},
          {constant_view<T>(x[3]), constant_view<T>(x[4])}};
}

template <class T>
void run_forward(const variable_list& x, const flex::BlockMask& mask, const at::Tensor& o, const at::Tensor& lse) {
  TorchThreads threads;
  const flex::Inputs<T> in = inputs_of<T>(x);
  flex::forward(in, flex::Outputs<T>{mutable_view<T>(o), lse_view(lse)}, mask,
                flex::Run{threads, workspace(flex::forward_workspace(in, mask, threads.num_threads()))});
}

template <class T>
void run_backward(const variable_list& x, const flex::BlockMask& mask, const at::Tensor& d_o, const variable_list& dx) {
  TorchThreads threads;
  const flex::Inputs<T> in = inputs_of<T>(x);
  flex::backward(in, flex::Saved<T>{constant_view<T>(x[5]), constant_view<T>(d_o), lse_view(x[6])},
                 flex::Gradients<T>{mutable_view<T>(dx[0]),
                                    {mutable_view<T>(dx[1]), mutable_view<T>(dx[2])},
                                    {mutable_view<T>(dx[3]), mutable_view<T>(dx[4])}},
                 mask, flex::Run{threads, workspace(flex::backward_workspace(in, mask, threads.num_threads()))});
}

struct RangesHolder : torch::CustomClassHolder {
  explicit RangesHolder(std::shared_ptr<const KeyRanges> r) : ranges(std::move(r)) {}
  std::shared_ptr<const KeyRanges> ranges;
};

struct FusedAttention : torch::autograd::Function<FusedAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k_context,
                            const at::Tensor& v_context, const at::Tensor& k_block, const at::Tensor& v_block,
                            const std::shared_ptr<const KeyRanges>& ranges) {
    variable_list saved;
    for (const at::Tensor& x : {q, k_context, v_context, k_block, v_block}) {
      DRAFTSMITH_ASSERT(x.scalar_type() == q.scalar_type());
      saved.push_back(dense_rows(x));
    }
    const at::Tensor o = at::empty(q.sizes(), q.options());
    const at::Tensor lse = at::empty({q.size(0), q.size(1)}, q.options().dtype(at::kFloat));
    if (q.scalar_type() == at::kBFloat16) {
      run_forward<flex::BFloat16>(saved, *ranges->tiles, o, lse);
    } else {
      run_forward<float>(saved, *ranges->tiles, o, lse);
    }
    saved.push_back(o);
    saved.push_back(lse);
    ctx->save_for_backward(saved);
    ctx->saved_data["ranges"] = c10::IValue::make_capsule(c10::make_intrusive<RangesHolder>(ranges));
    return o;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto holder = ctx->saved_data["ranges"].toCapsule();
    const flex::BlockMask& mask = *static_cast<const RangesHolder&>(*holder).ranges->tiles;
    const variable_list saved = ctx->get_saved_variables();
    variable_list dx;
    for (std::size_t i = 0; i < 5; ++i) dx.push_back(at::empty(saved[i].sizes(), saved[i].options()));
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

at::Tensor fused_attention(const at::Tensor& q_HQD, const at::Tensor& k_context_HSD, const at::Tensor& v_context_HSD,
                           const at::Tensor& k_block_HQD, const at::Tensor& v_block_HQD,
                           const std::shared_ptr<const KeyRanges>& ranges) {
  return FusedAttention::apply(q_HQD, k_context_HSD, v_context_HSD, k_block_HQD, v_block_HQD, ranges);
}

}  // namespace draftsmith
