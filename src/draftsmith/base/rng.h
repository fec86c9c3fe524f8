// Random numbers that are passed in, never global. A generator is made from a seed and any number of keys (purpose,
// epoch, step, document ...), so that every draw can be made again without remembering a state: resuming needs only the
// counters.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace draftsmith {

// The purpose of a stream of random numbers is the first key of every Rng, so that no two uses share numbers.
enum class RngPurpose : std::uint64_t {
  kInit = 1,
  kPackOrder = 2,
  kAnchors = 3,
  kSampling = 4,
  kTest = 5,
  kSynthetic = 6
};

class Rng {
 public:
  Rng(std::uint64_t seed, RngPurpose purpose, std::initializer_list<std::uint64_t> keys = {}) {
    state_ = mix(seed ^ 0x9e3779b97f4a7c15ULL);
    state_ = mix(state_ ^ static_cast<std::uint64_t>(purpose));
    for (std::uint64_t key : keys) state_ = mix(state_ ^ mix(key + 0x632be59bd9b4e019ULL));
  }

  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15ULL); }  // SplitMix64

  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  // Uniform in 0 .. n-1, n > 0, without bias.
  std::int64_t below(std::int64_t n) {
    const auto bound = static_cast<std::uint64_t>(n);
    const std::uint64_t reject = (0 - bound) % bound;
    std::uint64_t x = next();
    while (x < reject) x = next();
    return static_cast<std::int64_t>(x % bound);
  }

  // Standard normal (Box-Muller, one of the pair).
  double normal() {
    const double u = 1.0 - uniform(), v = uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  }

 private:
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

}  // namespace draftsmith
