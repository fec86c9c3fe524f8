#include "draftsmith/draft/loss_rows.h"

#include <cmath>
#include <limits>

#include "draftsmith/nn/elements.h"
#include "draftsmith/nn/kernels.h"
#include "draftsmith/nn/vec.h"

namespace draftsmith {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kPiece =
    1024;  // terms of a partial sum, which is then added in double, so that a long row's sum keeps its digits

template <class T>
DRAFTSMITH_CLONES float largest(const T* x, std::int64_t n) {
  return largest_of(x, n);
}

// First index whose value is `value`; n when there is none (NaN).
template <class T>
DRAFTSMITH_CLONES std::int64_t find(const T* x, std::int64_t n, float value) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec v;
    load(v, x + i, n - i, kMinusInfinity);
    const VecI equal = v == value;
    VecI any = equal;
    std::int32_t found = 0;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) found |= any[lane];
    if (found == 0) continue;
    for (std::int64_t lane = 0; lane < kLanes && lane < n - i; ++lane) {
      if (equal[lane] != 0) return i + lane;
    }
  }
  return n;
}

// sum exp(x - shift) of one piece.
template <class T>
DRAFTSMITH_INLINE float sum_exp(const T* x, std::int64_t n, float shift) {
  Vec sum = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Vec v;
    load(v, x + i, kLanes);
    v -= shift;
    exp_in_place(v);
    sum += v;
  }
  if (i < n) {
    Vec v;
    load(v, x + i, n - i, kMinusInfinity);
    v -= shift;
    exp_in_place(v);
    for (std::int64_t lane = 0; lane < n - i; ++lane) sum[lane] += v[lane];
  }
  return sum_of(sum);
}

// The largest value of a row, its first index, and sum exp(x - top).
struct RowScan {
  float top = kMinusInfinity;
  std::int64_t best = 0;
  double sum = 0;
};

// Reads memory once: a piece stays in the first-level cache while its largest value is found and its terms are summed,
// and what was summed before is scaled when a piece has a larger one.
template <class T>
DRAFTSMITH_CLONES RowScan scan(const T* x, std::int64_t n) {
  RowScan row;
  for (std::int64_t begin = 0; begin < n; begin += kPiece) {
    const std::int64_t size = n - begin < kPiece ? n - begin : kPiece;
    const float top = largest_of(x + begin, size);
    if (top > row.top) {
      row.sum *= std::exp(static_cast<double>(row.top) - static_cast<double>(top));
      row.top = top;
      row.best = begin + find(x + begin, size, top);
    }
    row.sum += static_cast<double>(sum_exp(x + begin, size, row.top));
  }
  return row;
}

template <class T>
DRAFTSMITH_CLONES void softmax_times(T* x, std::int64_t n, float log_sum, float factor) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec v;
    load(v, x + i, n - i, kMinusInfinity);
    v -= log_sum;
    exp_in_place(v);
    v *= factor;
    store(x + i, v, n - i);
  }
}

template <class T>
float value_at(const T* x, std::int64_t i) {
  Vec v;
  load(v, x + i, 1);
  return v[0];
}

float log_sum_of(const RowScan& row) { return row.top + static_cast<float>(std::log(row.sum)); }

template <class T>
RowFigures figures(const T* logits, std::int64_t size, std::int64_t label) {
  const RowScan row = scan(logits, size);
  const float log_sum = log_sum_of(row);
  return {.log_sum = log_sum, .nll = log_sum - value_at(logits, label), .best = row.best};
}

template <class T>
void gradient(T* logits, std::int64_t size, std::int64_t label, float log_sum, const RowFactors& factors) {
  const float at_label = std::exp(value_at(logits, label) - log_sum) * factors.all - factors.label;
  softmax_times(logits, size, log_sum, factors.all);
  Vec v = Vec{} + at_label;
  store(logits + label, v, 1);
}

// sum p (t - s), p = exp(t - target_log_sum).
template <class T>
DRAFTSMITH_CLONES double mean_difference(const T* target, float target_log_sum, const T* logits, std::int64_t n) {
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kPiece) {
    const std::int64_t end = begin + kPiece < n ? begin + kPiece : n;
    Vec sum = {};
    for (std::int64_t i = begin; i < end; i += kLanes) {
      Vec t, s;
      load(t, target + i, end - i);
      load(s, logits + i, end - i);
      const Vec difference = t - s;  // 0 beyond the end
      t -= target_log_sum;
      exp_in_place(t);
      sum += t * difference;
    }
    total += static_cast<double>(sum_of(sum));
  }
  return total;
}

template <class T>
DRAFTSMITH_CLONES void subtract_softmax(T* logits, const T* target, float target_log_sum, float factor,
                                        std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec t, g;
    load(t, target + i, n - i);
    load(g, logits + i, n - i);
    t -= target_log_sum;
    exp_in_place(t);
    g -= t * factor;
    store(logits + i, g, n - i);
  }
}

template <class T>
float divergence(const T* target, float target_log_sum, const T* logits, float log_sum, std::int64_t size) {
  return static_cast<float>(mean_difference(target, target_log_sum, logits, size)) - (target_log_sum - log_sum);
}

}  // namespace

RowFigures row_figures(const float* logits, std::int64_t size, std::int64_t label) {
  return figures(logits, size, label);
}
RowFigures row_figures(const std::uint16_t* logits, std::int64_t size, std::int64_t label) {
  return figures(logits, size, label);
}
void row_gradient(float* logits, std::int64_t size, std::int64_t label, float log_sum, const RowFactors& factors) {
  gradient(logits, size, label, log_sum, factors);
}
void row_gradient(std::uint16_t* logits, std::int64_t size, std::int64_t label, float log_sum,
                  const RowFactors& factors) {
  gradient(logits, size, label, log_sum, factors);
}
float row_log_sum(const float* logits, std::int64_t size) { return log_sum_of(scan(logits, size)); }
float row_log_sum(const std::uint16_t* logits, std::int64_t size) { return log_sum_of(scan(logits, size)); }
float row_divergence(const float* target, float target_log_sum, const float* logits, float log_sum, std::int64_t size) {
  return divergence(target, target_log_sum, logits, log_sum, size);
}
float row_divergence(const std::uint16_t* target, float target_log_sum, const std::uint16_t* logits, float log_sum,
                     std::int64_t size) {
  return divergence(target, target_log_sum, logits, log_sum, size);
}
void row_subtract_softmax(float* logits, const float* target, float target_log_sum, float factor, std::int64_t size) {
  subtract_softmax(logits, target, target_log_sum, factor, size);
}
void row_subtract_softmax(std::uint16_t* logits, const std::uint16_t* target, float target_log_sum, float factor,
                          std::int64_t size) {
  subtract_softmax(logits, target, target_log_sum, factor, size);
}

std::vector<std::int64_t> best_rows(const at::Tensor& logits) {
  if (!has_kernels(logits)) {
    const at::Tensor best = logits.argmax(1).to(at::kCPU);
    return {best.const_data_ptr<std::int64_t>(), best.const_data_ptr<std::int64_t>() + best.numel()};
  }
  std::vector<std::int64_t> best;
  const at::Tensor rows = logits.contiguous();
  const std::int64_t size = rows.size(1);
  with_data(rows, [&](const auto* data) {
    for (std::int64_t i = 0; i < rows.size(0); ++i) {
      const auto* row = data + i * size;
      best.push_back(find(row, size, largest(row, size)) % size);
    }
  });
  return best;
}

}  // namespace draftsmith
