// The elements of a tensor by their type.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "draftsmith/base/check.h"

namespace draftsmith {

// Calls f with the elements of t, float or std::uint16_t: bf16 is handled as its 16 bits.
template <class F>
void with_data(const at::Tensor& t, const F& f) {
  if (t.scalar_type() == at::kBFloat16) {
    f(static_cast<std::uint16_t*>(t.data_ptr()));
  } else {
    DRAFTSMITH_ASSERT(t.scalar_type() == at::kFloat);
    f(static_cast<float*>(t.data_ptr()));
  }
}

}  // namespace draftsmith
