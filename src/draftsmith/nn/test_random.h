// Random tensors and comparisons for tests.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <vector>

#include "draftsmith/base/rng.h"

namespace draftsmith {

inline at::Tensor random_tensor(Rng& rng, const std::vector<std::int64_t>& shape, double scale = 1.0) {
  at::Tensor tensor = at::empty(shape, at::TensorOptions(at::kFloat));
  float* values = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] = static_cast<float>(scale * rng.normal());
  return tensor;
}

// Largest difference relative to the largest entry of `expected`.
inline double relative_error(const at::Tensor& value, const at::Tensor& expected) {
  if (expected.numel() == 0 && value.numel() == 0) return 0;
  const double largest = expected.to(at::kDouble).abs().max().item<double>();
  const double error = (value.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>();
  return largest > 0 ? error / largest : error;
}

}  // namespace draftsmith
