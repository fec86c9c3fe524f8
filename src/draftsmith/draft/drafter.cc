#include "draftsmith/draft/drafter.h"

#include "draftsmith/base/check.h"

namespace draftsmith {

Frozen freeze(const at::Tensor& embedding, const at::Tensor& head, const DraftVocab& vocab, const Place& place) {
  Frozen out{.embedding = place.put(embedding), .head = {}, .vocab = vocab, .head_rows = vocab.rows(embedding.size(0))};
  const bool shared = embedding.is_same(head) && vocab.whole();
  out.head = shared ? out.embedding : place.put(draft_head(head, vocab));
  return out;
}

std::int64_t num_parameters(const Drafter& drafter) {
  std::int64_t count = 0;
  for (const Param& param : drafter.params()) count += param.tensor.numel();
  return count;
}

at::Tensor param_of(const Drafter& drafter, const std::string& name) {
  for (const Param& param : drafter.params())
    if (param.name == name) return param.tensor;
  DRAFTSMITH_ASSERT(!"a parameter of that name");
  return {};
}

}  // namespace draftsmith
