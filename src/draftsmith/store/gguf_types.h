// The tensor types a GGUF file may hold: a row is stored as whole blocks of `block_size` elements in `block_bytes`
// bytes. Facts of ggml's format, by its type ids.
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
