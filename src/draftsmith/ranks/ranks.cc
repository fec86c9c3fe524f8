#include "draftsmith/ranks/ranks.h"

#include <ATen/ops/full.h>

namespace draftsmith {

bool Ranks::agree(bool wish) {
  const at::Tensor wishes = at::full({}, wish ? 1 : 0, at::kLong);
  sum(wishes);
  return wishes.item<std::int64_t>() > 0;
}

std::int64_t Ranks::agree(std::int64_t number) {
  const at::Tensor first = at::full({}, number, at::kLong);
  broadcast(first);
  return first.item<std::int64_t>();
}

}  // namespace draftsmith
