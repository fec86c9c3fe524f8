// Each operation takes one pass over memory each way. Rows are independent; gradients of the norm weights are summed
// over fixed pieces of rows, then over the pieces in order, so that the thread count does not change a bit.
#include "draftsmith/nn/ops.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <vector>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/definitions.h"
#include "draftsmith/nn/elements.h"
#include "draftsmith/nn/few_rows.h"
#include "draftsmith/nn/kernels.h"
#include "draftsmith/nn/product.h"
#include "draftsmith/nn/row_kernels.h"
#include "draftsmith/nn/step_clock.h"

namespace draftsmith {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// ---- rms_norm --------------------------------------------------------------------------------------------------

template <class X, class Y>
DRAFTSMITH_CLONES void norm_rows(const X* x, const float* weight, double eps, Y* y, std::int64_t rows,
                                 std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, x += width, y += width) {
    const float scale = inverse_rms(x, width, eps);
    for (std::int64_t i = 0; i < width; i += kLanes) {
      Vec v, w;
      load(v, x + i, width - i);
      load(w, weight + i, width - i);
      v = v * scale * w;
      store(y + i, v, width - i);
    }
  }
}

template <class X, class Y>
DRAFTSMITH_CLONES void norm_rows_backward(const X* x, const float* weight, double eps, const Y* dy, X* dx,
                                          float* dweight, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, x += width, dy += width, dx += width)
    norm_row_backward(x, weight, eps, dy, dx, dweight, width);
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_in, const at::Tensor& weight, double eps,
                            std::int64_t result) {
    const at::Tensor x = x_in.contiguous();
    const std::int64_t width = weight.numel(), rows = x.numel() / width;
    at::Tensor y = at::empty(x.sizes(), x.options().dtype(static_cast<at::ScalarType>(result)));
    const float* w = weight.const_data_ptr<float>();
    with_data(x, [&](auto* px) {
      with_data(y, [&](auto* py) {
        RowPieces{rows}.for_each([&](std::int64_t begin, std::int64_t end, std::int64_t) {
          norm_rows(px + begin * width, w, eps, py + begin * width, end - begin, width);
        });
      });
    });
    ctx->save_for_backward({x, weight});
    ctx->saved_data["eps"] = eps;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = grads[0].contiguous();
    const std::int64_t width = weight.numel(), rows = x.numel() / width;
    const double eps = ctx->saved_data["eps"].toDouble();
    const at::Tensor dx = at::empty_like(x), dweight = at::zeros({RowPieces{rows}.count(), width}, weight.options());
    float* dw = dweight.data_ptr<float>();
    const float* w = weight.const_data_ptr<float>();
    with_data(dy, [&](auto* pdy) {
      with_data(x, [&](auto* px) {
        auto* pdx = static_cast<decltype(px)>(dx.data_ptr());
        RowPieces{rows}.for_each([&](std::int64_t begin, std::int64_t end, std::int64_t piece) {
          norm_rows_backward(px + begin * width, w, eps, pdy + begin * width, pdx + begin * width, dw + piece * width,
                             end - begin, width);
        });
      });
    });
    return {dx, dweight.sum(0), at::Tensor(), at::Tensor()};
  }
};

// ---- add_rms_norm ----------------------------------------------------------------------------------------------

template <class Y>
DRAFTSMITH_CLONES void add_norm_rows(const float* x, const Y* delta, const float* weight, double eps, float* sum, Y* y,
                                     std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, x += width, delta += width, sum += width, y += width) {
    for (std::int64_t i = 0; i < width; i += kLanes) {
      Vec v, d;
      load(v, x + i, width - i);
      load(d, delta + i, width - i);
      v += d;
      store(sum + i, v, width - i);
    }
    norm_rows(sum, weight, eps, y, 1, width);
  }
}

// Adds the gradient of the norm to that of the sum (dsum may be null). Residual and delta both get the result.
template <class Y>
DRAFTSMITH_CLONES void add_norm_rows_backward(const float* sum, const float* weight, double eps, const Y* dy,
                                              const float* dsum, float* dx, Y* ddelta, float* dweight,
                                              std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, sum += width, dy += width, dx += width, ddelta += width) {
    norm_row_backward(sum, weight, eps, dy, dx, dweight, width);
    for (std::int64_t i = 0; i < width; i += kLanes) {
      Vec v, d;
      load(v, dx + i, width - i);
      if (dsum != nullptr) {
        load(d, dsum + r * width + i, width - i);
        v += d;
        store(dx + i, v, width - i);
      }
      store(ddelta + i, v, width - i);
    }
  }
}

// The norm and delta have one type, the compute type.
struct AddRmsNorm : torch::autograd::Function<AddRmsNorm> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x_in, const at::Tensor& delta_in,
                               const at::Tensor& weight, double eps) {
    const at::Tensor x = x_in.contiguous(), delta = delta_in.contiguous();
    DRAFTSMITH_ASSERT(x.scalar_type() == at::kFloat && x.sizes() == delta.sizes());
    const std::int64_t width = weight.numel(), rows = x.numel() / width;
    const at::Tensor sum = at::empty_like(x), y = at::empty_like(delta);
    const float *w = weight.const_data_ptr<float>(), *px = x.const_data_ptr<float>();
    float* psum = sum.data_ptr<float>();
    with_data(delta, [&](auto* pdelta) {
      auto* py = static_cast<decltype(pdelta)>(y.data_ptr());
      RowPieces{rows}.for_each([&](std::int64_t begin, std::int64_t end, std::int64_t) {
        const std::int64_t at = begin * width;
        add_norm_rows(px + at, pdelta + at, w, eps, psum + at, py + at, end - begin, width);
      });
    });
    ctx->save_for_backward({sum, weight});
    ctx->saved_data["eps"] = eps;
    ctx->set_materialize_grads(false);
    return {sum, y};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &sum = saved[0], &weight = saved[1];
    DRAFTSMITH_ASSERT(grads[1].defined());
    const at::Tensor dy = grads[1].contiguous(), dsum = grads[0].defined() ? grads[0].contiguous() : at::Tensor();
    const std::int64_t width = weight.numel(), rows = sum.numel() / width;
    const double eps = ctx->saved_data["eps"].toDouble();
    const at::Tensor dx = at::empty_like(sum), ddelta = at::empty_like(dy),
                     dweight = at::zeros({RowPieces{rows}.count(), width}, weight.options());
    const float *w = weight.const_data_ptr<float>(), *psum = sum.const_data_ptr<float>(),
                *pdsum = dsum.defined() ? dsum.const_data_ptr<float>() : nullptr;
    float *pdx = dx.data_ptr<float>(), *dw = dweight.data_ptr<float>();
    with_data(dy, [&](auto* pdy) {
      auto* pddelta = static_cast<decltype(pdy)>(ddelta.data_ptr());
      RowPieces{rows}.for_each([&](std::int64_t begin, std::int64_t end, std::int64_t piece) {
        const std::int64_t at = begin * width;
        add_norm_rows_backward(psum + at, w, eps, pdy + at, pdsum != nullptr ? pdsum + at : nullptr, pdx + at,
                               pddelta + at, dw + piece * width, end - begin, width);
      });
    });
    return {dx, ddelta, dweight.sum(0), at::Tensor()};
  }
};

// ---- swiglu ----------------------------------------------------------------------------------------------------

DRAFTSMITH_INLINE void sigmoid(Vec& v) {
  v = -v;
  v = v > 80.0f ? Vec{} + 80.0f : v;
  exp_in_place(v);
  v = 1.0f / (1.0f + v);
}

template <class T>
DRAFTSMITH_CLONES void swiglu_forward(const T* gate, const T* up, T* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec g, u, s;
    load(g, gate + i, n - i);
    load(u, up + i, n - i);
    s = g;
    sigmoid(s);
    g = g * s * u;
    store(y + i, g, n - i);
  }
}

// d silu(g) = s (1 + g (1 - s)).
template <class T>
DRAFTSMITH_CLONES void swiglu_backward(const T* gate, const T* up, const T* dy, T* dgate, T* dup, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec g, u, d, s;
    load(g, gate + i, n - i);
    load(u, up + i, n - i);
    load(d, dy + i, n - i);
    s = g;
    sigmoid(s);
    const Vec du = d * g * s, dg = d * u * s * (1.0f + g * (1.0f - s));
    store(dup + i, du, n - i);
    store(dgate + i, dg, n - i);
  }
}

constexpr std::int64_t kElementsPerTask = 1 << 14;

struct Swiglu : torch::autograd::Function<Swiglu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate_in, const at::Tensor& up_in) {
    const TimedPart timed(StepPart::kMlp);
    const at::Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
    at::Tensor y = at::empty_like(gate);
    with_data(gate, [&](auto* g) {
      const auto* u = static_cast<decltype(g)>(up.data_ptr());
      auto* out = static_cast<decltype(g)>(y.data_ptr());
      at::parallel_for(0, gate.numel(), kElementsPerTask, [&](std::int64_t begin, std::int64_t end) {
        swiglu_forward(g + begin, u + begin, out + begin, end - begin);
      });
    });
    ctx->save_for_backward({gate, up});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const TimedPart timed(StepPart::kMlp);
    const at::Tensor &gate = saved[0], &up = saved[1];
    const at::Tensor dy = grads[0].contiguous(), dgate = at::empty_like(gate), dup = at::empty_like(up);
    with_data(gate, [&](auto* g) {
      using T = decltype(g);
      const auto *u = static_cast<T>(up.data_ptr()), *d = static_cast<T>(dy.data_ptr());
      auto *dg = static_cast<T>(dgate.data_ptr()), *du = static_cast<T>(dup.data_ptr());
      at::parallel_for(0, gate.numel(), kElementsPerTask, [&](std::int64_t begin, std::int64_t end) {
        swiglu_backward(g + begin, u + begin, d + begin, dg + begin, du + begin, end - begin);
      });
    });
    return {dgate, dup};
  }
};

// ---- linear ----------------------------------------------------------------------------------------------------

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight) {
    const TimedPart timed(ProductsOf::current());
    const at::Tensor w = weight.to(x.scalar_type());
    ctx->save_for_backward({x, w});
    ctx->saved_data["part"] = static_cast<std::int64_t>(ProductsOf::current());
    ctx->saved_data["type"] = static_cast<std::int64_t>(weight.scalar_type());
    return product(x, w.t());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const TimedPart timed(static_cast<StepPart>(ctx->saved_data["part"].toInt()));
    const auto type = static_cast<at::ScalarType>(ctx->saved_data["type"].toInt());
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& dy = grads[0];
    at::Tensor dx, dweight;
    if (ctx->needs_input_grad(0)) dx = product(dy, saved[1]);
    if (ctx->needs_input_grad(1)) dweight = product(dy.t(), saved[0]).to(type);
    return {dx, dweight};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) {
  if (!has_kernels(x)) return definition::linear(x, weight);
  if (!c10::GradMode::is_enabled() && are_few_rows(x.size(0), x.scalar_type()))
    return linear_few_rows(x, weight.to(x.scalar_type()).contiguous());
  return Linear::apply(x, weight);
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType result) {
  if (!has_kernels(x)) return definition::rms_norm(x, weight, eps, result);
  return RmsNorm::apply(x, weight, eps, static_cast<std::int64_t>(result));
}

Normed add_rms_norm(const Residual& x, const at::Tensor& weight, double eps, at::ScalarType result) {
  if (!x.delta.defined()) return {x.residual, rms_norm(x.residual, weight, eps, result)};
  DRAFTSMITH_ASSERT(x.delta.scalar_type() == result);
  if (!has_kernels(x.residual)) {
    const at::Tensor sum = x.residual + x.delta;
    return {sum, definition::rms_norm(sum, weight, eps, result)};
  }
  const variable_list out = AddRmsNorm::apply(x.residual, x.delta, weight, eps);
  return {out[0], out[1]};
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return has_kernels(gate) ? Swiglu::apply(gate, up) : definition::swiglu(gate, up);
}

// Layers of drafters have neither, so these two have no kernels of ours.
at::Tensor head_rope(const at::Tensor& x, std::int64_t head_dim, const Rope& rope) {
  return definition::head_rope(x, head_dim, rope);
}

at::Tensor add_bias(const at::Tensor& y, const at::Tensor& bias) { return definition::add_bias(y, bias); }

}  // namespace draftsmith
