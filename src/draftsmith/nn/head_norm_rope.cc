// RMSNorm per head and rotary positions, fused: the projections' [N, h * D] come out as the attention's [h, N, D].
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <vector>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/definitions.h"
#include "draftsmith/nn/elements.h"
#include "draftsmith/nn/kernels.h"
#include "draftsmith/nn/ops.h"
#include "draftsmith/nn/row_kernels.h"

namespace draftsmith {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Sizes {
  std::int64_t rows, heads, dim;
  RowPieces pieces() const { return {.rows = rows, .rows_per_piece = 32}; }
};

// Rows begin .. end of x [rows, heads * dim] -> y [heads, rows, dim].
template <class T>
DRAFTSMITH_CLONES void forward_rows(const T* x, const float* weight, const float* cos, const float* sin, double eps,
                                    T* y, std::int64_t begin, std::int64_t end, Sizes s) {
  const std::int64_t half = s.dim / 2;
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const T* in = x + (r * s.heads + h) * s.dim;
      T* out = y + (h * s.rows + r) * s.dim;
      const float scale = inverse_rms(in, s.dim, eps);
      for (std::int64_t i = 0; i < half; i += kLanes) {
        Vec a, b, wa, wb, c, d;
        load(a, in + i, half - i);
        load(b, in + half + i, half - i);
        load(wa, weight + i, half - i);
        load(wb, weight + half + i, half - i);
        load(c, cos + r * half + i, half - i);
        load(d, sin + r * half + i, half - i);
        a *= wa * scale;
        b *= wb * scale;
        const Vec first = a * c - b * d, second = b * c + a * d;
        store(out + i, first, half - i);
        store(out + half + i, second, half - i);
      }
    }
  }
}

// Turns dy back by the same angle, then takes the gradient of the norm. `turned` holds one head.
template <class T>
DRAFTSMITH_CLONES void backward_rows(const T* x, const float* weight, const float* cos, const float* sin, double eps,
                                     const T* dy, T* dx, float* dweight, float* turned, std::int64_t begin,
                                     std::int64_t end, Sizes s) {
  const std::int64_t half = s.dim / 2;
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const T* in = x + (r * s.heads + h) * s.dim;
      const T* d = dy + (h * s.rows + r) * s.dim;
      T* out = dx + (r * s.heads + h) * s.dim;
      for (std::int64_t i = 0; i < half; i += kLanes) {
        Vec a, b, c, e;
        load(a, d + i, half - i);
        load(b, d + half + i, half - i);
        load(c, cos + r * half + i, half - i);
        load(e, sin + r * half + i, half - i);
        const Vec first = a * c + b * e, second = b * c - a * e;
        store(turned + i, first, half - i);
        store(turned + half + i, second, half - i);
      }
      norm_row_backward(in, weight, eps, turned, out, dweight, s.dim);
    }
  }
}

struct HeadNormRope : torch::autograd::Function<HeadNormRope> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_in, const at::Tensor& weight, double eps,
                            const at::Tensor& cos, const at::Tensor& sin) {
    const at::Tensor x = x_in.contiguous();
    const Sizes s{x.size(0), x.size(1) / weight.numel(), weight.numel()};
    DRAFTSMITH_ASSERT(s.dim % 2 == 0 && cos.size(0) == s.rows && cos.size(1) * 2 == s.dim);
    at::Tensor y = at::empty({s.heads, s.rows, s.dim}, x.options());
    const float *w = weight.const_data_ptr<float>(), *c = cos.const_data_ptr<float>(), *d = sin.const_data_ptr<float>();
    with_data(x, [&](auto* px) {
      using T = decltype(px);
      s.pieces().for_each([&](std::int64_t begin, std::int64_t end, std::int64_t) {
        forward_rows(px, w, c, d, eps, static_cast<T>(y.data_ptr()), begin, end, s);
      });
    });
    ctx->save_for_backward({x, weight, cos, sin});
    ctx->saved_data["eps"] = eps;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = grads[0].contiguous();
    const Sizes s{x.size(0), x.size(1) / weight.numel(), weight.numel()};
    const double eps = ctx->saved_data["eps"].toDouble();
    const at::Tensor dx = at::empty_like(x), dweight = at::zeros({s.pieces().count(), s.dim}, weight.options());
    const float *w = weight.const_data_ptr<float>(), *c = saved[2].const_data_ptr<float>(),
                *d = saved[3].const_data_ptr<float>();
    with_data(x, [&](auto* px) {
      using T = decltype(px);
      s.pieces().for_each([&](std::int64_t begin, std::int64_t end, std::int64_t piece) {
        std::vector<float> turned(static_cast<std::size_t>(s.dim));
        backward_rows(px, w, c, d, eps, static_cast<T>(dy.data_ptr()), static_cast<T>(dx.data_ptr()),
                      dweight.data_ptr<float>() + piece * s.dim, turned.data(), begin, end, s);
      });
    });
    return {dx, dweight.sum(0), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor head_norm_rope(const at::Tensor& x, const at::Tensor& weight, double eps, const Rope& rope) {
  if (!has_kernels(x)) return definition::head_norm_rope(x, weight, eps, rope);
  return HeadNormRope::apply(x, weight, eps, rope.cos, rope.sin);
}

}  // namespace draftsmith
