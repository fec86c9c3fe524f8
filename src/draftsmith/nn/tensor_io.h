// Safetensors bytes <-> tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "draftsmith/store/safetensors.h"

namespace draftsmith {

// Gives a copy of the tensor in the file's own type: BOOL, U8, I8, I16, I32, I64, F16, BF16, F32, F64. Other types are
// refused by name.
at::Tensor tensor_from_safetensors(const SafetensorsFile& file, const std::string& name);

// Gives the tensor as fp32. A type other than F32, BF16 or F16, and a shape other than `shape`, are refused by file and
// tensor before any memory is taken.
at::Tensor float_tensor_from_safetensors(const SafetensorsFile& file, const std::string& name,
                                         const std::vector<std::int64_t>& shape);

// Describes a contiguous CPU tensor as one piece of a file to write. The tensor must outlive the result.
TensorToWrite tensor_to_write(const std::string& name, const at::Tensor& tensor);

// Makes a tensor that owns a copy of `values`.
at::Tensor float_tensor(std::span<const float> values, const std::vector<std::int64_t>& shape);

}  // namespace draftsmith
