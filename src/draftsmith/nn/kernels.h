// Decides which operations run on kernels of ours: those on CPU tensors. Tensors of any other device, and all tensors
// while an OnDefinitions is alive, take the definitions (definitions.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>

namespace draftsmith {

namespace detail {
inline std::atomic<int> definitions_forced = 0;
}

inline bool has_kernels(const at::Tensor& x) {
  return x.device().is_cpu() && detail::definitions_forced.load(std::memory_order_relaxed) == 0;
}

// Forces every operation of the process onto its definition, as on a device without kernels.
class OnDefinitions {
 public:
  OnDefinitions() { ++detail::definitions_forced; }
  ~OnDefinitions() { --detail::definitions_forced; }
  OnDefinitions(const OnDefinitions&) = delete;
  OnDefinitions& operator=(const OnDefinitions&) = delete;
};

}  // namespace draftsmith
