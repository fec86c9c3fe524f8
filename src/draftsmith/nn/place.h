// A place says on which device tensors are and in which type matrix products are computed. Code that makes tensors is
// given a place.
#pragma once

#include <ATen/core/Tensor.h>

#include "draftsmith/base/choices.h"

namespace draftsmith {

struct Place {
  at::Device device = at::kCPU;
  at::ScalarType compute = at::kBFloat16;  // or kFloat; norms, residuals and sums are fp32 in either case

  at::TensorOptions floats() const { return at::TensorOptions(at::kFloat).device(device); }
  at::TensorOptions computed() const { return at::TensorOptions(compute).device(device); }
  // The same numbers in the compute type, in this place.
  at::Tensor put(const at::Tensor& x) const { return x.to(device, compute); }
};

// The place on the CPU with products in that type.
inline Place place_of(Compute compute) {
  return {.compute = compute == Compute::kFloat32 ? at::kFloat : at::kBFloat16};
}

}  // namespace draftsmith
