// The oracle computes attention as plain loops over the predicate, forward and backward, with every tensor in memory.
// In double it is the truth that kernels are held to; in float, or in float rounded to bf16 after each step, it is the
// naive computation whose error is compared with theirs.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "flex/mask.h"
#include "flex/score.h"

namespace flex {

// Dense tensors: q, d_o [B, Hq, Q, D]; k, v [B, Hkv, K, D] (the context, then the block).
struct ReferenceProblem {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, dim = 16;
  double scale = 1;
  std::vector<double> q = {}, k = {}, v = {}, d_o = {};
};

struct ReferenceResult {
  std::vector<double> o, lse, dq, dk, dv;
};

// value(s, place) and slope(s, place) take and give Real; round(x) is applied to every number that is stored.
template <class Real, Mask M, class Value, class Slope, class Round>
ReferenceResult reference(const ReferenceProblem& in, const M& mask, const Value& value, const Slope& slope,
                          const Round& round) {
  const std::int64_t q_count = in.queries, k_count = in.keys, dim = in.dim, group = in.heads / in.kv_heads;
  const auto scale = static_cast<Real>(in.scale);
  ReferenceResult out;
  const auto rows = static_cast<std::size_t>(in.batch * in.heads * q_count);
  out.o.assign(rows * static_cast<std::size_t>(dim), 0.0);
  out.dq = out.o;
  out.lse.assign(rows, 0.0);
  std::vector<Real> dk(in.k.size(), Real{0}), dv(in.v.size(), Real{0});
  std::vector<Real> s(static_cast<std::size_t>(k_count)), p(s.size()), dp(s.size()), slopes(s.size());
  std::vector<char> seen(s.size());
  const auto number = [](const std::vector<double>& x, std::int64_t i) {
    return static_cast<Real>(x[static_cast<std::size_t>(i)]);
  };
  for (std::int64_t b = 0; b < in.batch; ++b) {
    for (std::int64_t h = 0; h < in.heads; ++h) {
      const std::int64_t kv = (b * in.kv_heads + h / group) * k_count * dim;
      for (std::int64_t q = 0; q < q_count; ++q) {
        const std::int64_t row = (b * in.heads + h) * q_count + q, at = row * dim;
        Real top = -std::numeric_limits<Real>::infinity();
        for (std::int64_t k = 0; k < k_count; ++k) {
          const auto i = static_cast<std::size_t>(k);
          seen[i] = mask(b, h, q, k) ? 1 : 0;
          if (seen[i] == 0) continue;
          Real dot{0};
          for (std::int64_t d = 0; d < dim; ++d) dot += number(in.q, at + d) * number(in.k, kv + k * dim + d);
          const Real raw = round(dot * scale);
          const Place place{static_cast<std::int32_t>(b), static_cast<std::int32_t>(h), static_cast<std::int32_t>(q),
                            static_cast<std::int32_t>(k)};
          s[i] = round(value(raw, place));
          slopes[i] = slope(raw, place);
          top = s[i] > top ? s[i] : top;
        }
        Real sum{0};
        for (std::int64_t k = 0; k < k_count; ++k)
          if (seen[static_cast<std::size_t>(k)] != 0) sum += std::exp(s[static_cast<std::size_t>(k)] - top);
        if (!(sum > 0)) {
          out.lse[static_cast<std::size_t>(row)] = -std::numeric_limits<double>::infinity();
          continue;
        }
        out.lse[static_cast<std::size_t>(row)] = static_cast<double>(top + std::log(sum));
        std::vector<Real> o(static_cast<std::size_t>(dim), Real{0}), dq(o);
        for (std::int64_t k = 0; k < k_count; ++k) {
          const auto i = static_cast<std::size_t>(k);
          if (seen[i] == 0) continue;
          p[i] = round(std::exp(s[i] - top) / sum);
          Real dot{0};
          for (std::int64_t d = 0; d < dim; ++d) {
            o[static_cast<std::size_t>(d)] += p[i] * number(in.v, kv + k * dim + d);
            dot += number(in.d_o, at + d) * number(in.v, kv + k * dim + d);
          }
          dp[i] = round(dot);
        }
        Real delta{0};
        for (std::int64_t d = 0; d < dim; ++d) {
          const Real rounded = round(o[static_cast<std::size_t>(d)]);
          out.o[static_cast<std::size_t>(at + d)] = static_cast<double>(rounded);
          delta += rounded * number(in.d_o, at + d);
        }
        for (std::int64_t k = 0; k < k_count; ++k) {
          const auto i = static_cast<std::size_t>(k);
          if (seen[i] == 0) continue;
          const Real ds = round(p[i] * (dp[i] - delta) * slopes[i] * scale);
          for (std::int64_t d = 0; d < dim; ++d) {
            const auto j = static_cast<std::size_t>(kv + k * dim + d);
            dq[static_cast<std::size_t>(d)] += ds * static_cast<Real>(in.k[j]);
            dk[j] += ds * number(in.q, at + d);
            dv[j] += p[i] * number(in.d_o, at + d);
          }
        }
        for (std::int64_t d = 0; d < dim; ++d)
          out.dq[static_cast<std::size_t>(at + d)] = static_cast<double>(round(dq[static_cast<std::size_t>(d)]));
      }
    }
  }
  for (const Real x : dk) out.dk.push_back(static_cast<double>(round(x)));
  for (const Real x : dv) out.dv.push_back(static_cast<double>(round(x)));
  return out;
}

}  // namespace flex
