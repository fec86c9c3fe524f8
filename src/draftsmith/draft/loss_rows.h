// One row of logits at a time: the figures of a cross-entropy, then the gradient in place. Logits are fp32 or bf16
// (given as their 16 bits); arithmetic is fp32.
#pragma once

#include <cstdint>

namespace draftsmith {

struct RowFigures {
  float log_sum = 0;      // log sum exp(logit)
  float nll = 0;          // log_sum - logit[label]
  std::int64_t best = 0;  // first index of the largest logit
};

RowFigures row_figures(const float* logits, std::int64_t size, std::int64_t label);
RowFigures row_figures(const std::uint16_t* logits, std::int64_t size, std::int64_t label);

// First index of the largest logit (0 in a row of NaN).
std::int64_t row_best(const float* logits, std::int64_t size);
std::int64_t row_best(const std::uint16_t* logits, std::int64_t size);

// logits = (softmax(logits) - [label]) * factor
void row_gradient(float* logits, std::int64_t size, std::int64_t label, float log_sum, float factor);
void row_gradient(std::uint16_t* logits, std::int64_t size, std::int64_t label, float log_sum, float factor);

}  // namespace draftsmith
