// For tests of the kernels: a random problem with its tensors in memory, a call on it, and a comparison with the oracle
// in double. The error may be at most twice that of the naive computation in the same type.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "flex/cpu.h"
#include "flex/reference.h"

namespace flex {

inline float to_float(float x) { return x; }
inline float to_float(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
template <class T>
T from_float(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16)};
  }
}
inline float round_to_bf16(float x) { return to_float(from_float<BFloat16>(x)); }

struct Shape {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, queries = 16, context = 0, block = 16, dim = 16;
};

// Widths of a head below, between and at the multiples of vectors.
inline constexpr std::int64_t kOddWidths[] = {1, 2, 3, 7, 8, 12, 15, 17, 20, 33, 100, 255, 256};

// The ways in which a tensor may lie in memory.
enum class Layout { kDense, kHeadsInside, kWideRows };

// A tensor [B, H, N, D] with its memory.
template <class T>
struct Tensor {
  std::vector<T> memory;
  View<T> view;

  Tensor(std::array<std::int64_t, 4> size, Layout layout) {
    view.size = size;
    const std::int64_t row = size[3] + (layout == Layout::kWideRows ? 7 : 0);
    if (layout == Layout::kHeadsInside) {
      view.stride = {size[1] * size[2] * row, row, size[1] * row, 1};
    } else {
      view.stride = {size[1] * size[2] * row, size[2] * row, row, 1};
    }
    memory.assign(static_cast<std::size_t>(size[0] * size[1] * size[2] * row + 1), from_float<T>(NAN));
    view.data = memory.data();
  }
  View<const T> constant() const { return view; }
  template <class Body>
  void for_each(const Body& body) const {
    for (std::int64_t b = 0; b < view.size[0]; ++b)
      for (std::int64_t h = 0; h < view.size[1]; ++h)
        for (std::int64_t n = 0; n < view.size[2]; ++n)
          for (std::int64_t d = 0; d < view.size[3]; ++d) body(b, h, n, d, view.row(b, h, n)[d]);
  }
};

template <class T>
struct Case {
  Shape shape;
  double scale;
  Tensor<T> q, k[2], v[2], o, d_o, dq, dk[2], dv[2];
  Tensor<float> lse;
  ReferenceProblem reference;

  Case(const Shape& s, Layout layout, std::uint64_t seed)
      : shape(s),
        scale(0.7 / std::sqrt(static_cast<double>(s.dim))),
        q({s.batch, s.heads, s.queries, s.dim}, layout),
        k{Tensor<T>({s.batch, s.kv_heads, s.context, s.dim}, layout),
          Tensor<T>({s.batch, s.kv_heads, s.block, s.dim}, layout)},
        v{k[0], k[1]},
        o(q),
        d_o(q),
        dq(q),
        dk{k[0], k[1]},
        dv{k[0], k[1]},
        lse({s.batch, s.heads, s.queries, 1}, layout) {
    for (Tensor<T>* tensor : all()) tensor->view.data = tensor->memory.data();
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    reference = {
        .batch = s.batch,
        .heads = s.heads,
        .kv_heads = s.kv_heads,
        .queries = s.queries,
        .keys = s.context + s.block,
        .dim = s.dim,
        .scale = static_cast<double>(static_cast<float>(scale)),
        .q = {},
        .k = std::vector<double>(static_cast<std::size_t>(s.batch * s.kv_heads * (s.context + s.block) * s.dim)),
        .v = {},
        .d_o = {}};
    reference.v = reference.k;
    const auto fill = [&](Tensor<T>& tensor, float size, const auto& keep) {
      tensor.for_each([&](std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t d, T& x) {
        x = from_float<T>(size * normal(random));
        keep(b, h, n, d, static_cast<double>(to_float(x)));
      });
    };
    fill(q, 1.5f, [&](auto, auto, auto, auto, double x) { reference.q.push_back(x); });
    fill(d_o, 1.0f, [&](auto, auto, auto, auto, double x) { reference.d_o.push_back(x); });
    for (int source = 0; source < 2; ++source) {
      const auto into = [&](std::vector<double>& to) {
        return [&, source](std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t d, double x) {
          to[static_cast<std::size_t>(index(b, h, n + (source == 1 ? s.context : 0), d))] = x;
        };
      };
      fill(k[source], 1.5f, into(reference.k));
      fill(v[source], 1.0f, into(reference.v));
    }
  }
  std::int64_t index(std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t d) const {
    return ((b * shape.kv_heads + h) * (shape.context + shape.block) + n) * shape.dim + d;
  }
  std::vector<Tensor<T>*> all() {
    return {&q, &k[0], &k[1], &v[0], &v[1], &o, &d_o, &dq, &dk[0], &dk[1], &dv[0], &dv[1]};
  }
  Inputs<T> inputs() const {
    return {q.constant(),
            {k[0].constant(), v[0].constant()},
            {k[1].constant(), v[1].constant()},
            static_cast<float>(scale)};
  }

  template <Score S>
  void run(const BlockMask& mask, const S& score, Isa isa, Executor& executor) {
    const Inputs<T> in = inputs();
    std::vector<std::byte> workspace(static_cast<std::size_t>(forward_workspace(in, mask, executor.num_threads())));
    forward(in, Outputs<T>{o.view, lse.view}, mask, CpuCall{executor, workspace, isa}, score);
    workspace.resize(static_cast<std::size_t>(backward_workspace(in, mask, executor.num_threads())));
    backward(in, Saved<T>{o.constant(), d_o.constant(), lse.constant()},
             Gradients<T>{dq.view, {dk[0].view, dv[0].view}, {dk[1].view, dv[1].view}}, mask,
             CpuCall{executor, workspace, isa}, score);
  }
  // Returns the results of the kernels in the oracle's order.
  ReferenceResult result() const {
    ReferenceResult out;
    const auto list = [](const auto& tensor) {
      std::vector<double> values;
      tensor.for_each([&](auto, auto, auto, auto, auto& x) { values.push_back(static_cast<double>(to_float(x))); });
      return values;
    };
    out.o = list(o), out.lse = list(lse), out.dq = list(dq);
    out.dk.resize(reference.k.size()), out.dv.resize(reference.k.size());
    for (int source = 0; source < 2; ++source) {
      const std::int64_t offset = source == 1 ? shape.context : 0;
      dk[source].for_each([&](std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t d, const T& x) {
        out.dk[static_cast<std::size_t>(index(b, h, n + offset, d))] = static_cast<double>(to_float(x));
      });
      dv[source].for_each([&](std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t d, const T& x) {
        out.dv[static_cast<std::size_t>(index(b, h, n + offset, d))] = static_cast<double>(to_float(x));
      });
    }
    return out;
  }
};

inline double largest(const std::vector<double>& x) {
  double most = 0;
  for (const double value : x)
    if (std::isfinite(value)) most = std::max(most, std::fabs(value));
  return most;
}

// Returns the largest difference; a NaN, or an infinity on one side alone, counts as infinite.
inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    const double d = std::fabs(a[i] - b[i]);
    most = std::isnan(d) ? INFINITY : std::max(most, d);
  }
  return most;
}

// A score with its twin in double.
template <class S>
struct ScorePair {
  S score;
  std::function<double(double, const Place&)> value, slope;
};

template <class T, Mask M, class S>
void expect_near_oracle(const Shape& shape, const M& mask, const ScorePair<S>& score, Layout layout, Isa isa,
                        std::int64_t mask_batches = 1, std::int64_t mask_heads = 1) {
  Case<T> c(shape, layout, 17);
  const BlockMask blocks = BlockMask::build(mask, {.num_batches = mask_batches,
                                                   .num_heads = mask_heads,
                                                   .num_queries = shape.queries,
                                                   .num_keys = shape.context + shape.block,
                                                   .num_context = shape.context,
                                                   .tile_rows = tile_rows_for(shape.heads / shape.kv_heads)});
  Serial serial;
  c.run(blocks, score.score, isa, serial);
  const ReferenceResult ours = c.result();
  const auto plain = [](double x) { return x; };
  const ReferenceResult truth = reference<double>(c.reference, mask, score.value, score.slope, plain);
  const auto value = [&](float s, const Place& at) { return score.score.value(s, at); };
  const auto slope = [&](float s, const Place& at) { return score.score.derivative(s, at); };
  constexpr bool kBf16 = std::is_same_v<T, BFloat16>;
  const ReferenceResult naive =
      reference<float>(c.reference, mask, value, slope, [](float x) { return kBf16 ? round_to_bf16(x) : x; });
  // Sums over a narrow head have few terms, whose roundings do not cover the error of exp (3e-7, score.h).
  const double rounding = kBf16 ? 0x1p-8 : shape.dim < 16 ? 3e-7 : 0x1p-23;
  // One rounding of the largest entry is added, or of the largest term where terms cancel: a naive error may be 0 by
  // luck.
  const auto check = [&](const char* name, const std::vector<double>& x, const std::vector<double>& exact,
                         const std::vector<double>& other, double term) {
    const double unit = std::max(largest(exact), term) * rounding;
    EXPECT_LE(distance(x, exact), 2 * distance(other, exact) + unit) << name << ", " << name_of(isa);
  };
  const double ds =
      c.scale * largest(c.reference.d_o) * largest(c.reference.v) * std::sqrt(static_cast<double>(shape.dim));
  check("o", ours.o, truth.o, naive.o, 0);
  check("lse", ours.lse, truth.lse, naive.lse, 0);
  check("dq", ours.dq, truth.dq, naive.dq, ds * largest(c.reference.k));
  check("dk", ours.dk, truth.dk, naive.dk, ds * largest(c.reference.q));
  check("dv", ours.dv, truth.dv, naive.dv, 0);
}

inline const ScorePair<Identity> kIdentity{
    {}, [](double s, const Place&) { return s; }, [](double, const Place&) { return 1.0; }};

inline std::vector<Isa> isas() {
  std::vector<Isa> out;
  for (const Isa isa : kAllIsas)
    if (is_supported(isa)) out.push_back(isa);
  return out;
}

template <Mask M, class S>
void expect_near_oracle_everywhere(const Shape& shape, const M& mask, const ScorePair<S>& score,
                                   Layout layout = Layout::kDense, std::int64_t mask_batches = 1,
                                   std::int64_t mask_heads = 1) {
  for (const Isa isa : isas()) {
    expect_near_oracle<float>(shape, mask, score, layout, isa, mask_batches, mask_heads);
    expect_near_oracle<BFloat16>(shape, mask, score, layout, isa, mask_batches, mask_heads);
  }
}

}  // namespace flex
