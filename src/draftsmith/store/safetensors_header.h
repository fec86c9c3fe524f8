// Reads the front of a safetensors file: 8 bytes of length, then JSON. Only this room includes it.
#pragma once

#include <map>
#include <span>
#include <string>

#include "draftsmith/store/tensor_info.h"

namespace draftsmith {

struct SafetensorsHeader {
  std::map<std::string, TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
  std::size_t data_begin = 0;  // of the data section, from the start of the file
};

// Checks everything: length, JSON, types, and that the tensors fill the data section exactly, without overlap or gap.
// Throws a UserError that names `file` and the tensor.
SafetensorsHeader read_safetensors_header(const std::string& file, std::span<const std::byte> bytes);

inline constexpr char kMetadataKey[] = "__metadata__";
inline constexpr std::size_t kLongestHeader = 100'000'000;  // the reference library's limit

}  // namespace draftsmith
