// Keys and values of one layer while a sequence grows. Rows may stand beyond the committed ones: the next take their
// place.
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
  // The first `length` rows.
  KeyValue first(std::int64_t length) const;

 private:
  KeyValue rows_;
};

}  // namespace draftsmith
