// Lists the tensor types that a GGUF file may hold, by ggml's type ids. A row is stored as whole blocks of `block_size`
// elements in `block_bytes` bytes.
#pragma once

#include <cstdint>

namespace draftsmith {

struct GgufType {
  std::uint32_t id;
  const char* name;
  std::int64_t block_size;
  std::int64_t block_bytes;
};

const GgufType* find_gguf_type(std::uint32_t id);  // null when unknown

}  // namespace draftsmith
