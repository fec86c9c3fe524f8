#include "draftsmith/nn/mask.h"

#include <ATen/ops/zeros.h>

#include "draftsmith/base/check.h"

namespace draftsmith {

MaskPtr causal_mask(std::int64_t length, std::int64_t group) {
  return make_mask(flex::Causal{}, {.num_queries = length, .num_keys = length, .num_context = length, .group = group});
}

at::Tensor dense_mask(const flex::BlockMask& mask) {
  const flex::BlockMaskShape& shape = mask.shape();
  DRAFTSMITH_ASSERT(mask.num_planes() == 1);
  at::Tensor out = at::zeros({shape.num_queries, shape.num_keys}, at::TensorOptions(at::kBool));
  bool* seen = out.data_ptr<bool>();
  for (std::int64_t tile = 0; tile < mask.num_tiles(); ++tile) {
    for (const flex::Segment& segment : mask.row(0, tile)) {
      for (std::int64_t r = 0; r < mask.rows_in(tile); ++r) {
        bool* row = seen + (tile * shape.tile_rows + r) * shape.num_keys;
        for (std::int64_t k = segment.begin; k < segment.end; ++k)
          row[k] =
              segment.bits < 0 || ((mask.bits(segment)[static_cast<std::size_t>(k - segment.begin)] >> r) & 1) != 0;
      }
    }
  }
  return out;
}

}  // namespace draftsmith
