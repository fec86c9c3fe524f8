// The element types an export can hold, and one drafter tensor as the bytes of such a type.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>

#include "draftsmith/draft/drafter.h"

namespace draftsmith {

enum class StoredType { kFloat32, kBFloat16, kFloat16 };

// "f32" | "bf16" | "f16" (also float32, bfloat16, float16); UsageError naming the choices.
StoredType stored_type_from_text(const std::string& text);

// A contiguous copy (or the tensor itself) in the stored type. Refuses, by `name`, values that are no numbers, among
// them those that overflow the type.
at::Tensor to_stored(const std::string& name, const at::Tensor& tensor, StoredType type);
// A head that goes with a drafter of a smaller vocabulary has its rows; an assertion of ours otherwise.
void check_draft_head(const LoadedDrafter& drafter, const at::Tensor& head);
std::span<const std::byte> bytes_of(const at::Tensor& contiguous);

}  // namespace draftsmith
