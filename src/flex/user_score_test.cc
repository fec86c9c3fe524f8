// Tests a user's own score, as a user writes it with one struct and one line.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "flex/cpu.h"
#include "flex/instantiate.h"
#include "flex/reference.h"

// Scores fade with the distance of query and key: y = s / (1 + rate |q - k|).
struct Fading {
  float rate = 0.1f;
  float factor(const flex::Place& at) const {
    const std::int32_t distance = at.q < at.k ? at.k - at.q : at.q - at.k;
    return 1.0f / (1.0f + rate * static_cast<float>(distance));
  }
  float value(float s, const flex::Place& at) const { return s * factor(at); }
  float derivative(float, const flex::Place& at) const { return factor(at); }
};
FLEX_INSTANTIATE_SCORE(Fading)

namespace flex {
namespace {

TEST(UserScore, RunsOnEveryInstructionSet) {
  const std::int64_t heads = 2, rows = 40, dim = 32;
  ReferenceProblem truth{
      .batch = 1, .heads = heads, .kv_heads = heads, .queries = rows, .keys = rows, .dim = dim, .scale = 0.25};
  const auto count = static_cast<std::size_t>(heads * rows * dim);
  std::vector<float> q(count), k(count), v(count), d_o(count), o(count), dq(count), dk(count), dv(count),
      lse(static_cast<std::size_t>(heads * rows));
  for (std::size_t i = 0; i < count; ++i) {
    q[i] = std::sin(0.37f * static_cast<float>(i)), k[i] = std::cos(0.59f * static_cast<float>(i)),
    v[i] = std::sin(1.3f * static_cast<float>(i)), d_o[i] = std::cos(2.1f * static_cast<float>(i));
    truth.q.push_back(q[i]), truth.k.push_back(k[i]), truth.v.push_back(v[i]), truth.d_o.push_back(d_o[i]);
  }
  const Fading fading;
  const ReferenceResult expected = reference<double>(
      truth, Causal{}, [&](double s, const Place& at) { return s * static_cast<double>(fading.factor(at)); },
      [&](double, const Place& at) { return static_cast<double>(fading.factor(at)); }, [](double x) { return x; });
  const std::array<std::int64_t, 4> size = {1, heads, rows, dim}, none = {1, heads, 0, dim};
  const Inputs<float> in{dense_view<const float>(q.data(), size),
                         {dense_view<const float>(nullptr, none), dense_view<const float>(nullptr, none)},
                         {dense_view<const float>(k.data(), size), dense_view<const float>(v.data(), size)},
                         0.25f};
  const BlockMask mask = BlockMask::build(Causal{}, {.num_queries = rows, .num_keys = rows, .tile_rows = 64});
  const View<float> lse_view = dense_view(lse.data(), {1, heads, rows, 1});
  Serial serial;
  std::vector<std::byte> workspace(
      static_cast<std::size_t>(std::max(forward_workspace(in, mask, 1), backward_workspace(in, mask, 1))));
  for (const Isa isa : kAllIsas) {
    if (!is_supported(isa)) continue;
    const CpuCall call{serial, workspace, isa};
    forward(in, {dense_view(o.data(), size), lse_view}, mask, call, fading);
    backward(in,
             Saved<float>{dense_view<const float>(o.data(), size), dense_view<const float>(d_o.data(), size), lse_view},
             Gradients<float>{dense_view(dq.data(), size),
                              {dense_view<float>(nullptr, none), dense_view<float>(nullptr, none)},
                              {dense_view(dk.data(), size), dense_view(dv.data(), size)}},
             mask, call, fading);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(o[i], expected.o[i], 1e-5) << name_of(isa);
      ASSERT_NEAR(dq[i], expected.dq[i], 1e-5) << name_of(isa);
      ASSERT_NEAR(dk[i], expected.dk[i], 1e-5) << name_of(isa);
      ASSERT_NEAR(dv[i], expected.dv[i], 1e-5) << name_of(isa);
    }
  }
}

}  // namespace
}  // namespace flex
