#include "draftsmith/nn/attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/attention_paths.h"
#include "flex/isa.h"

namespace draftsmith {
namespace {

constexpr const char* kRanges = "ranges";

struct RangesHolder : torch::CustomClassHolder {
  explicit RangesHolder(std::shared_ptr<const KeyRanges> r) : ranges(std::move(r)) {}
  std::shared_ptr<const KeyRanges> ranges;
};

}  // namespace

void save_ranges(torch::autograd::AutogradContext* context, const std::shared_ptr<const KeyRanges>& ranges) {
  context->saved_data[kRanges] = c10::IValue::make_capsule(c10::make_intrusive<RangesHolder>(ranges));
}

std::shared_ptr<const KeyRanges> saved_ranges(const torch::autograd::AutogradContext* context) {
  const auto holder = context->saved_data.at(kRanges).toCapsule();
  return static_cast<const RangesHolder&>(*holder).ranges;
}

void make_tiles(KeyRanges& ranges, std::int64_t group) {
  // flex numbers the block's keys behind the context's.
  const auto context = static_cast<std::int32_t>(ranges.num_context);
  std::vector<std::int32_t> begin = ranges.block_begin, end = ranges.block_end;
  for (std::int32_t& key : begin) key += context;
  for (std::int32_t& key : end) key += context;
  ranges.tiles = flex::BlockMask::build(flex::TwoRanges{ranges.context_begin, ranges.context_end, begin, end},
                                        {.num_queries = ranges.num_rows(),
                                         .num_keys = ranges.num_context + ranges.num_rows(),
                                         .num_context = ranges.num_context,
                                         .tile_rows = flex::tile_rows_for(group)});
}

bool fused_attention_has_bf16_products() { return flex::default_isa() == flex::Isa::kAvx512Bf16; }

std::string text_of_path(AttentionPath path) {
  if (path == AttentionPath::kPlain) return "plain tensor operations";
  return "fused kernels (" + std::string(flex::name_of(flex::default_isa())) + ")";
}

at::Tensor range_attention(const at::Tensor& q_HQD, const at::Tensor& k_HND, const at::Tensor& v_HND,
                           const std::shared_ptr<const KeyRanges>& ranges) {
  DRAFTSMITH_ASSERT(q_HQD.size(1) == ranges->num_rows() && ranges->num_rows() % ranges->block_size == 0);
  DRAFTSMITH_ASSERT(k_HND.size(1) == ranges->num_context + ranges->num_rows() && q_HQD.size(0) % k_HND.size(0) == 0);
  const auto attention = ranges->tiles ? fused_attention : plain_attention;
  return attention(q_HQD, k_HND, v_HND, ranges);
}

}  // namespace draftsmith
