#include "draftsmith/model/kv_cache.h"

#include <ATen/ops/empty.h>

namespace draftsmith {

KvCache::KvCache(const DecoderShape& shape, std::int64_t capacity, const Place& place)
    : rows_{at::empty({shape.num_kv_heads, capacity, shape.head_dim}, place.computed()),
            at::empty({shape.num_kv_heads, capacity, shape.head_dim}, place.computed())} {}

void KvCache::put(std::int64_t begin, const KeyValue& rows) {
  rows_.k.narrow(1, begin, rows.k.size(1)).copy_(rows.k);
  rows_.v.narrow(1, begin, rows.v.size(1)).copy_(rows.v);
}

KeyValue KvCache::first(std::int64_t length) const {
  return {rows_.k.narrow(1, 0, length), rows_.v.narrow(1, 0, length)};
}

}  // namespace draftsmith
