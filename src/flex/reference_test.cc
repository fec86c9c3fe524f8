// Holds the oracle itself to central differences.
#include "flex/reference.h"

#include <gtest/gtest.h>

#include <random>

namespace flex {
namespace {

ReferenceProblem problem(std::uint64_t seed) {
  ReferenceProblem p{.batch = 2, .heads = 4, .kv_heads = 2, .queries = 3, .keys = 5, .dim = 4, .scale = 0.6};
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const auto fill = [&](std::vector<double>& x, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) x.push_back(normal(random));
  };
  fill(p.q, 2 * 4 * 3 * 4), fill(p.d_o, 2 * 4 * 3 * 4), fill(p.k, 2 * 2 * 5 * 4), fill(p.v, 2 * 2 * 5 * 4);
  return p;
}

const auto kSame = [](double x) { return x; };
const auto kMask = [](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
  return q != 1 && (k + h + b) % 3 != 0;
};
// A score with a slope of its own everywhere.
const auto kValue = [](double s, const Place& at) { return std::sin(s) + 0.1 * s * at.h; };
const auto kSlope = [](double s, const Place& at) { return std::cos(s) + 0.1 * at.h; };

double objective(const ReferenceProblem& p) {
  const ReferenceResult r = reference<double>(p, kMask, kValue, kSlope, kSame);
  double sum = 0;
  for (std::size_t i = 0; i < r.o.size(); ++i) sum += r.o[i] * p.d_o[i];
  return sum;
}

TEST(Reference, GradientsAreCentralDifferences) {
  ReferenceProblem p = problem(1);
  const ReferenceResult r = reference<double>(p, kMask, kValue, kSlope, kSame);
  const auto check = [&](std::vector<double>& x, const std::vector<double>& gradient, const char* name) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double kept = x[i], step = 1e-5;
      x[i] = kept + step;
      const double up = objective(p);
      x[i] = kept - step;
      const double down = objective(p);
      x[i] = kept;
      EXPECT_NEAR(gradient[i], (up - down) / (2 * step), 1e-8) << name << " " << i;
    }
  };
  check(p.q, r.dq, "dq");
  check(p.k, r.dk, "dk");
  check(p.v, r.dv, "dv");
}

TEST(Reference, RowsWithoutKeysAreZero) {
  const ReferenceProblem p = problem(2);
  const ReferenceResult r = reference<double>(p, kMask, kValue, kSlope, kSame);
  for (std::size_t row = 0; row < r.lse.size(); ++row) {
    if (row % 3 != 1) continue;
    EXPECT_EQ(r.lse[row], -std::numeric_limits<double>::infinity());
    for (std::size_t d = 0; d < 4; ++d) EXPECT_EQ(r.o[row * 4 + d], 0) << row;
    for (std::size_t d = 0; d < 4; ++d) EXPECT_EQ(r.dq[row * 4 + d], 0) << row;
  }
}

}  // namespace
}  // namespace flex
