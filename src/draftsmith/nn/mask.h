// A mask of attention (flex/mask.h) as data that layers share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "flex/block_mask.h"

namespace draftsmith {

using MaskPtr = std::shared_ptr<const flex::BlockMask>;

// Makes a mask (flex/mask.h) into data, the same for all heads and layers; `group` = query heads per key/value head.
// Keys have one numbering: first num_context of the context, then num_keys - num_context of the blocks.
struct MaskShape {
  std::int64_t num_queries = 0, num_keys = 0, num_context = 0, group = 1;
};
template <flex::Mask M>
MaskPtr make_mask(const M& mask, const MaskShape& shape) {
  return std::make_shared<const flex::BlockMask>(
      flex::BlockMask::build(mask, {.num_queries = shape.num_queries,
                                    .num_keys = shape.num_keys,
                                    .num_context = shape.num_context,
                                    .tile_rows = flex::tile_rows_for(shape.group)}));
}

// One document of `length` tokens: each sees itself and all before it.
MaskPtr causal_mask(std::int64_t length, std::int64_t group);

// Gives a mask that is the same for all batches and heads as bool [Q, K] on the CPU.
at::Tensor dense_mask(const flex::BlockMask& mask);

}  // namespace draftsmith
