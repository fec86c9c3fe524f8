#include "draftsmith/export/stored_type.h"

#include <ATen/ops/isfinite.h>

#include "draftsmith/base/check.h"

namespace draftsmith {

StoredType stored_type_from_text(const std::string& text) {
  if (text == "f32" || text == "float32") return StoredType::kFloat32;
  if (text == "bf16" || text == "bfloat16") return StoredType::kBFloat16;
  if (text == "f16" || text == "float16") return StoredType::kFloat16;
  throw UsageError(text_of("the stored type is '", text, "', but it must be f32, bf16 or f16"));
}

at::Tensor to_stored(const std::string& name, const at::Tensor& tensor, StoredType type) {
  const at::ScalarType scalar = type == StoredType::kFloat32    ? at::kFloat
                                : type == StoredType::kBFloat16 ? at::kBFloat16
                                                                : at::kHalf;
  at::Tensor stored = tensor.detach().to(at::kCPU).to(scalar).contiguous();
  require(at::isfinite(stored).all().item<bool>(), "tensor ", name,
          " of the drafter holds values that are infinite or no numbers in the stored type; choose a wider type, or an "
          "earlier checkpoint if the training went wrong");
  return stored;
}

void check_draft_head(const LoadedDrafter& drafter, const at::Tensor& head) {
  DRAFTSMITH_ASSERT(head.defined() && head.dim() == 2 && head.size(1) == drafter.config().hidden_size);
  DRAFTSMITH_ASSERT(head.size(0) == drafter.vocab.size(drafter.config().vocab_size));
}

std::span<const std::byte> bytes_of(const at::Tensor& contiguous) {
  DRAFTSMITH_ASSERT(contiguous.is_contiguous());
  return {static_cast<const std::byte*>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

}  // namespace draftsmith
