// Holds the keys and values of one layer while a sequence grows. Rows beyond the committed ones may remain; the next
// rows overwrite them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "draftsmith/model/layer.h"
#include "draftsmith/nn/place.h"

namespace draftsmith {

class KvCache {
 public:
  KvCache(const DecoderShape& shape, std::int64_t capacity, const Place& place);

  // Writes `rows` [Hkv, n, D] from position `begin` on.
  void put(std::int64_t begin, const KeyValue& rows);
  // Returns views of the first `length` rows, [Hkv, length, D].
  KeyValue first(std::int64_t length) const;

 private:
  KeyValue rows_;
};

}  // namespace draftsmith
