// The element types an export can hold, and one drafter tensor as the bytes of such a type.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>

#include "draftsmith/draft/drafter_folder.h"

namespace draftsmith {

enum class StoredType { kFloat32, kBFloat16, kFloat16 };

// "f32" | "bf16" | "f16" (also float32, bfloat16, float16); UsageError naming the choices.
StoredType stored_type_from_text(const std::string& text);

// The type in which a parameter of this role is stored when matrices are stored as `matrices`.
constexpr StoredType stored_type_of(Role role, StoredType matrices) {
  return is_computed(role) ? matrices : StoredType::kFloat32;
}

// A contiguous copy (or the tensor itself) in the stored type. Values that are not finite, also those that overflow the
// type, are refused with the tensor's `name`.
at::Tensor to_stored(const std::string& name, const at::Tensor& tensor, StoredType type);
// Asserts that `head` has one row per id of the drafter's vocabulary.
void check_draft_head(const LoadedDrafter& drafter, const at::Tensor& head);
std::span<const std::byte> bytes_of(const at::Tensor& contiguous);

}  // namespace draftsmith
