// Holds what a safetensors file says about a tensor: its type, its shape and the place of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace draftsmith {

enum class DType { kBool, kU8, kI8, kF8E5M2, kF8E4M3, kI16, kU16, kF16, kBF16, kI32, kU32, kF32, kF64, kI64, kU64 };
std::size_t size_of(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
std::string name_of(DType dtype);  // the format's spelling: "F32", "BF16", "U8" ...

struct TensorInfo {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::size_t begin = 0, end = 0;  // bytes, relative to the data section
  std::int64_t num_elements() const;
};

}  // namespace draftsmith
