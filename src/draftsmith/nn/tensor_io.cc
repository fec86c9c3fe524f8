#include "draftsmith/nn/tensor_io.h"

#include <ATen/ops/empty.h>

#include <cstring>

#include "draftsmith/base/check.h"
#include "draftsmith/base/words.h"

namespace draftsmith {
namespace {

at::ScalarType scalar_type_of(const SafetensorsFile& file, const std::string& name, DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return at::kBool;
    case DType::kU8:
      return at::kByte;
    case DType::kI8:
      return at::kChar;
    case DType::kI16:
      return at::kShort;
    case DType::kI32:
      return at::kInt;
    case DType::kI64:
      return at::kLong;
    case DType::kF16:
      return at::kHalf;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kF32:
      return at::kFloat;
    case DType::kF64:
      return at::kDouble;
    default:
      fail(file.path().string(), ": tensor '", name, "' is of type ", name_of(dtype), ", which is not supported");
  }
}

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return DType::kBool;
    case at::kByte:
      return DType::kU8;
    case at::kChar:
      return DType::kI8;
    case at::kShort:
      return DType::kI16;
    case at::kInt:
      return DType::kI32;
    case at::kLong:
      return DType::kI64;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kDouble:
      return DType::kF64;
    default:
      DRAFTSMITH_ASSERT(type == at::kFloat);
      return DType::kF32;
  }
}

}  // namespace

at::Tensor tensor_from_safetensors(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo& info = file.info(name);
  at::Tensor tensor = at::empty(info.shape, at::TensorOptions(scalar_type_of(file, name, info.dtype)));
  const std::span<const std::byte> bytes = file.bytes(name);
  DRAFTSMITH_ASSERT(bytes.size() == tensor.nbytes());
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

at::Tensor float_tensor_from_safetensors(const SafetensorsFile& file, const std::string& name,
                                         const std::vector<std::int64_t>& shape) {
  const TensorInfo& info = file.info(name);
  require(info.shape == shape, file.path().string(), ": tensor '", name, "' is ", shape_text(info.shape), ", expected ",
          shape_text(shape));
  require(info.dtype == DType::kF32 || info.dtype == DType::kBF16 || info.dtype == DType::kF16, file.path().string(),
          ": tensor '", name, "' is of type ", name_of(info.dtype), ", expected F32, BF16 or F16");
  return tensor_from_safetensors(file, name).to(at::kFloat);
}

TensorToWrite tensor_to_write(const std::string& name, const at::Tensor& tensor) {
  DRAFTSMITH_ASSERT(tensor.is_contiguous() && tensor.is_cpu());
  return {.name = name,
          .dtype = dtype_of(tensor.scalar_type()),
          .shape = tensor.sizes().vec(),
          .bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

at::Tensor float_tensor(std::span<const float> values, const std::vector<std::int64_t>& shape) {
  at::Tensor tensor = at::empty(shape, at::TensorOptions(at::kFloat));
  DRAFTSMITH_ASSERT(tensor.numel() == static_cast<std::int64_t>(values.size()));
  if (!values.empty()) std::memcpy(tensor.mutable_data_ptr(), values.data(), values.size_bytes());
  return tensor;
}

}  // namespace draftsmith
