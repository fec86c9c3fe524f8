// Runs flex behind autograd: on views of torch's tensors, with torch's threads, in one workspace that is kept.
#include "draftsmith/nn/attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/custom_function.h>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/definitions.h"
#include "draftsmith/nn/kernels.h"
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

// The workspace grows to the largest call of this thread and stays, since fresh memory would cost a page fault for
// every 4 KiB.
thread_local std::vector<std::byte> kept_workspace;

std::span<std::byte> workspace(std::int64_t bytes) {
  if (static_cast<std::int64_t>(kept_workspace.size()) < bytes) kept_workspace.resize(static_cast<std::size_t>(bytes));
  return kept_workspace;
}

// Views [H, N, D] as [1, H, N, D]; D must be dense.
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

// The two sources of keys or values [Hkv, K, D]: those of the context, and those behind it.
struct Sources {
  at::Tensor context, block;
};
Sources sources_of(const at::Tensor& x, const flex::BlockMask& mask) {
  const std::int64_t context = mask.shape().num_context;
  return {x.narrow(1, 0, context), x.narrow(1, context, x.size(1) - context)};
}

// x = q, k, v.
template <class T>
flex::Inputs<T> inputs_of(const variable_list& x, const flex::BlockMask& mask) {
  const Sources k = sources_of(x[1], mask), v = sources_of(x[2], mask);
  return {constant_view<T>(x[0]),
          {constant_view<T>(k.context), constant_view<T>(v.context)},
          {constant_view<T>(k.block), constant_view<T>(v.block)}};
}

template <class T>
void run_forward(const variable_list& x, const flex::BlockMask& mask, const at::Tensor& o, const at::Tensor& lse) {
  TorchThreads threads;
  const flex::Inputs<T> in = inputs_of<T>(x, mask);
  flex::forward(in, flex::Outputs<T>{mutable_view<T>(o), lse_view(lse)}, mask,
                flex::CpuCall{threads, workspace(flex::forward_workspace(in, mask, threads.num_threads()))});
}

template <class T>
void run_backward(const variable_list& x, const flex::BlockMask& mask, const at::Tensor& d_o, const variable_list& dx) {
  TorchThreads threads;
  const flex::Inputs<T> in = inputs_of<T>(x, mask);
  const Sources dk = sources_of(dx[1], mask), dv = sources_of(dx[2], mask);
  flex::backward(in, flex::Saved<T>{constant_view<T>(x[3]), constant_view<T>(d_o), lse_view(x[4])},
                 flex::Gradients<T>{mutable_view<T>(dx[0]),
                                    {mutable_view<T>(dk.context), mutable_view<T>(dv.context)},
                                    {mutable_view<T>(dk.block), mutable_view<T>(dv.block)}},
                 mask, flex::CpuCall{threads, workspace(flex::backward_workspace(in, mask, threads.num_threads()))});
}

// Calls f with a value of the element type that flex computes in.
template <class F>
void by_type(const at::Tensor& x, const F& f) {
  if (x.scalar_type() == at::kBFloat16)
    f(flex::BFloat16{});
  else
    f(float{});
}

struct MaskHolder : torch::CustomClassHolder {
  explicit MaskHolder(MaskPtr m) : mask(std::move(m)) {}
  MaskPtr mask;
};
constexpr const char* kMask = "mask";

struct FusedAttention : torch::autograd::Function<FusedAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const MaskPtr& mask) {
    const TimedPart timed(StepPart::kAttention);
    variable_list saved;
    for (const at::Tensor& x : {q, k, v}) {
      DRAFTSMITH_ASSERT(x.scalar_type() == q.scalar_type());
      saved.push_back(dense_rows(x));
    }
    // The rows of all heads lie side by side, as the next projection reads them.
    at::Tensor o = at::empty({q.size(1), q.size(0), q.size(2)}, q.options()).transpose(0, 1);
    const at::Tensor lse = at::empty({q.size(0), q.size(1)}, q.options().dtype(at::kFloat));
    by_type(q, [&](auto element) { run_forward<decltype(element)>(saved, *mask, o, lse); });
    saved.push_back(o);
    saved.push_back(lse);
    ctx->save_for_backward(saved);
    ctx->saved_data[kMask] = c10::IValue::make_capsule(c10::make_intrusive<MaskHolder>(mask));
    return o;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const TimedPart timed(StepPart::kAttention);
    const auto holder = ctx->saved_data.at(kMask).toCapsule();
    const flex::BlockMask& mask = *static_cast<const MaskHolder&>(*holder).mask;
    const variable_list saved = ctx->get_saved_variables();
    variable_list dx;
    for (std::size_t i = 0; i < 3; ++i)
      dx.push_back(at::empty_strided(saved[i].sizes(), saved[i].strides(), saved[i].options()));
    const at::Tensor d_o = dense_rows(grads[0]);
    by_type(d_o, [&](auto element) { run_backward<decltype(element)>(saved, mask, d_o, dx); });
    dx.push_back(at::Tensor());
    return dx;
  }
};

}  // namespace

void release_attention_workspace() { kept_workspace = {}; }

bool attention_has_bf16_products() { return flex::default_isa() == flex::Isa::kAvx512Bf16; }

std::string attention_kernels() { return "fused kernels (" + std::string(flex::name_of(flex::default_isa())) + ")"; }

at::Tensor attention(const at::Tensor& q_HQD, const at::Tensor& k_HKD, const at::Tensor& v_HKD, const MaskPtr& mask) {
  const flex::BlockMaskShape& shape = mask->shape();
  DRAFTSMITH_ASSERT(q_HQD.size(1) == shape.num_queries && k_HKD.size(1) == shape.num_keys);
  DRAFTSMITH_ASSERT(q_HQD.size(0) % k_HKD.size(0) == 0);
  if (!has_kernels(q_HQD)) return definition::attention(q_HQD, k_HKD, v_HKD, mask);
  return FusedAttention::apply(q_HQD, k_HKD, v_HKD, mask);
}

}  // namespace draftsmith
