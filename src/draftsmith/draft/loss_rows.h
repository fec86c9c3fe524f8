// Works on one row of logits at a time: it computes the figures of a cross-entropy, then the gradient in place. Logits
// are fp32 or bf16 (given as their 16 bits); arithmetic is fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace draftsmith {

struct RowFigures {
  float log_sum = 0;      // log sum exp(logit)
  float nll = 0;          // log_sum - logit[label]
  std::int64_t best = 0;  // first index of the largest logit
};

// A row of logits that counts, and its figures.
struct LossRow {
  std::int64_t index = 0;  // block * B + slot
  std::int64_t label = 0;
  RowFigures figures;
  float target_log_sum = 0, divergence = 0;  // with soft labels
};

RowFigures row_figures(const float* logits, std::int64_t size, std::int64_t label);
RowFigures row_figures(const std::uint16_t* logits, std::int64_t size, std::int64_t label);

// First index of the largest logit of each row of logits [N, V], fp32 or bf16; 0 in a row of NaN.
std::vector<std::int64_t> best_rows(const at::Tensor& logits);

// logits = softmax(logits) * all - [label] * label; both factors are equal without soft labels.
struct RowFactors {
  float all = 0, label = 0;
};
void row_gradient(float* logits, std::int64_t size, std::int64_t label, float log_sum, const RowFactors& factors);
void row_gradient(std::uint16_t* logits, std::int64_t size, std::int64_t label, float log_sum,
                  const RowFactors& factors);

// log sum exp(logit) of a row.
float row_log_sum(const float* logits, std::int64_t size);
float row_log_sum(const std::uint16_t* logits, std::int64_t size);

// KL(target || drafter) of two rows of logits whose log sums are known.
float row_divergence(const float* target, float target_log_sum, const float* logits, float log_sum, std::int64_t size);
float row_divergence(const std::uint16_t* target, float target_log_sum, const std::uint16_t* logits, float log_sum,
                     std::int64_t size);

// logits -= softmax(target) * factor, which is what soft labels subtract from a gradient that holds softmax(logits) *
// factor.
void row_subtract_softmax(float* logits, const float* target, float target_log_sum, float factor, std::int64_t size);
void row_subtract_softmax(std::uint16_t* logits, const std::uint16_t* target, float target_log_sum, float factor,
                          std::int64_t size);

}  // namespace draftsmith
