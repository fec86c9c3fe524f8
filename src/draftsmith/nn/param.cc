#include "draftsmith/nn/param.h"

namespace draftsmith {

void fill_first_value(const at::Tensor& tensor, Role role, Rng& rng) {
  if (!is_computed(role)) {
    tensor.fill_(role == Role::kNorm ? 1.0 : 0.0);
    return;
  }
  float* values = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] = static_cast<float>(0.02 * rng.normal());
}

}  // namespace draftsmith
