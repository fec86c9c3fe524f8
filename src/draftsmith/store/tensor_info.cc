#include "draftsmith/store/tensor_info.h"

#include <array>
#include <utility>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 15> kDTypes = {{{DType::kBool, "BOOL"},
                                                                         {DType::kU8, "U8"},
                                                                         {DType::kI8, "I8"},
                                                                         {DType::kF8E5M2, "F8_E5M2"},
                                                                         {DType::kF8E4M3, "F8_E4M3"},
                                                                         {DType::kI16, "I16"},
                                                                         {DType::kU16, "U16"},
                                                                         {DType::kF16, "F16"},
                                                                         {DType::kBF16, "BF16"},
                                                                         {DType::kI32, "I32"},
                                                                         {DType::kU32, "U32"},
                                                                         {DType::kF32, "F32"},
                                                                         {DType::kF64, "F64"},
                                                                         {DType::kI64, "I64"},
                                                                         {DType::kU64, "U64"}}};

}  // namespace

std::int64_t TensorInfo::num_elements() const {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) count *= extent;
  return count;
}

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kF8E5M2:
    case DType::kF8E4M3:
      return 1;
    case DType::kI16:
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kI32:
    case DType::kU32:
    case DType::kF32:
      return 4;
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
      return 8;
  }
  DRAFTSMITH_ASSERT(false);
  return 0;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const auto& [dtype, known] : kDTypes)
    if (known == name) return dtype;
  return std::nullopt;
}

std::string name_of(DType dtype) {
  for (const auto& [known, name] : kDTypes) {
    if (known == dtype) return std::string(name);
  }
  DRAFTSMITH_ASSERT(false);
  return "";
}

}  // namespace draftsmith
