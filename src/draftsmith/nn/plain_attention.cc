// The fallback: exact key ranges on plain matrix products. Consecutive blocks whose context ranges nearly agree form a
// chunk: one dense product of the chunk's queries with the union of their ranges, then a softmax that reads only each
// row's own range and its block, then one dense product with the values. The query heads of one key/value head are
// stacked, so keys are never expanded. Nothing but the result and the row's log-sum-exp is kept for backward, which
// computes the scores again.
//
// Shapes: Hq query heads, Hkv key/value heads, G = Hq / Hkv, Q rows, S context keys, D width; in a chunk R rows, C
// keys. Inside, everything is fp32: products of this size cost little and scores keep their digits under bf16 inputs.
#include <ATen/Parallel.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/attention_paths.h"
#include "draftsmith/nn/attention_rows.h"
#include "draftsmith/nn/step_clock.h"

namespace draftsmith {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Chunk {
  std::int64_t first_row, num_rows;  // whole blocks
  std::int64_t key_begin, num_keys;  // union of the rows' context ranges
};

constexpr std::int64_t kMaxBlocks = 64;                     // blocks in a chunk
constexpr std::int64_t kMaxScores = std::int64_t{4} << 20;  // floats of one chunk's scores, unless one block needs more

// Blocks in order; a chunk ends where the dense product would waste more than a ninth of its work (short ranges: 32
// keys).
std::vector<Chunk> plan_chunks(const KeyRanges& ranges, std::int64_t heads) {
  std::vector<Chunk> chunks;
  const std::int64_t block = ranges.block_size, num_blocks = ranges.num_rows() / block;
  std::int64_t first = 0, begin = 0, end = 0,
               useful = 0;  // of the open chunk: first block, union, sum of exact lengths
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    std::int64_t lo = 0, hi = 0, length = 0;  // of this block
    for (std::int64_t row = b * block; row < (b + 1) * block; ++row) {
      const std::int64_t row_begin = ranges.context_begin[row], row_end = ranges.context_end[row];
      if (row_begin >= row_end) continue;
      lo = length == 0 ? row_begin : std::min(lo, row_begin);
      hi = length == 0 ? row_end : std::max(hi, row_end);
      length = std::max(length, row_end - row_begin);
    }
    const bool open_is_empty = begin >= end;
    const std::int64_t new_begin = length == 0 ? begin : open_is_empty ? lo : std::min(begin, lo);
    const std::int64_t new_end = length == 0 ? end : open_is_empty ? hi : std::max(end, hi);
    const std::int64_t count = b - first + 1, dense = (new_end - new_begin) * count;
    const bool fits =
        count <= kMaxBlocks && dense <= (useful + length) * 9 / 8 + 32 * count && dense * block * heads <= kMaxScores;
    if (count > 1 && !fits) {
      chunks.push_back({first * block, (b - first) * block, begin, end - begin});
      first = b;
      begin = lo;
      end = hi;
      useful = length;
    } else {
      begin = new_begin;
      end = new_end;
      useful += length;
    }
  }
  if (first < num_blocks) chunks.push_back({first * block, (num_blocks - first) * block, begin, end - begin});
  return chunks;
}

// Keys or values of the context (any strides will do) and of the blocks (dense), both fp32.
struct Split {
  at::Tensor context, block;
};
Split split(const at::Tensor& all, const KeyRanges& ranges) {
  return {all.narrow(1, 0, ranges.num_context).to(at::kFloat),
          all.narrow(1, ranges.num_context, ranges.num_rows()).to(at::kFloat).contiguous()};
}

// Rows of a chunk of [Hq, Q, D] as [Hkv, G * R, D] in fp32.
at::Tensor gather(const at::Tensor& x, const Chunk& chunk, std::int64_t kv_heads) {
  const at::Tensor rows = x.narrow(1, chunk.first_row, chunk.num_rows).to(at::kFloat).contiguous();
  return rows.view({kv_heads, -1, x.size(2)});
}

void scatter(const at::Tensor& rows, const Chunk& chunk, const at::Tensor& x) {
  x.narrow(1, chunk.first_row, chunk.num_rows).copy_(rows.view({x.size(0), chunk.num_rows, x.size(2)}));
}

AttentionRows rows_of(const KeyRanges& ranges, const Chunk& chunk, const at::Tensor& q, std::int64_t kv_heads) {
  return {.ranges = &ranges,
          .first_row = chunk.first_row,
          .num_rows = chunk.num_rows,
          .key_begin = chunk.key_begin,
          .num_keys = chunk.num_keys,
          .group = q.size(0) / kv_heads,
          .total_rows = q.size(1),
          .dim = q.size(2),
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(q.size(2))))};
}

// Calls body(key/value head, block) for all of a chunk.
template <class Body>
void for_units(std::int64_t kv_heads, const AttentionRows& rows, const Body& body) {
  const std::int64_t blocks = rows.num_rows / rows.ranges->block_size;
  at::parallel_for(0, kv_heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) body(unit / blocks, unit % blocks);
  });
}

struct RangeAttention : torch::autograd::Function<RangeAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k_all, const at::Tensor& v_all,
                            const std::shared_ptr<const KeyRanges>& ranges) {
    const TimedPart timed(StepPart::kAttention);
    const std::int64_t kv_heads = k_all.size(0);
    const auto [k, kb] = split(k_all, *ranges);
    const auto [v, vb] = split(v_all, *ranges);
    const at::Tensor out = at::empty({q.size(1), q.size(0), q.size(2)}, q.options()).transpose(0, 1);
    const at::Tensor lse = at::empty({q.size(0), q.size(1)}, q.options().dtype(at::kFloat));
    for (const Chunk& chunk : plan_chunks(*ranges, q.size(0))) {
      const AttentionRows rows = rows_of(*ranges, chunk, q, kv_heads);
      const at::Tensor q_chunk = gather(q, chunk, kv_heads), o_chunk = at::empty_like(q_chunk);
      const at::Tensor scores = at::bmm(q_chunk, k.narrow(1, chunk.key_begin, chunk.num_keys).transpose(1, 2));
      for_units(kv_heads, rows, [&](std::int64_t head, std::int64_t block) {
        attention_rows_forward(rows, head, block, q_chunk.data_ptr<float>(), kb.data_ptr<float>(), vb.data_ptr<float>(),
                               scores.data_ptr<float>(), o_chunk.data_ptr<float>(), lse.data_ptr<float>());
      });
      if (chunk.num_keys > 0) o_chunk.baddbmm_(scores, v.narrow(1, chunk.key_begin, chunk.num_keys));
      scatter(o_chunk, chunk, out);
    }
    ctx->save_for_backward({q, k_all, v_all, out, lse});
    save_ranges(ctx, ranges);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads_in) {
    const TimedPart timed(StepPart::kAttention);
    const at::Tensor& d_out = grads_in[0];
    const std::shared_ptr<const KeyRanges> saved_by_forward = saved_ranges(ctx);
    const KeyRanges& ranges = *saved_by_forward;
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &out = saved[3], &lse = saved[4];
    const std::int64_t kv_heads = saved[1].size(0);
    const auto [k, kb] = split(saved[1], ranges);
    const auto [v, vb] = split(saved[2], ranges);
    const at::Tensor dq = at::empty(q.sizes(), q.options());
    const at::Tensor dk = at::zeros(k.sizes(), k.options()), dv = at::zeros(v.sizes(), v.options()),
                     dkb = at::zeros_like(kb), dvb = at::zeros_like(vb);
    for (const Chunk& chunk : plan_chunks(ranges, q.size(0))) {
      const AttentionRows rows = rows_of(ranges, chunk, q, kv_heads);
      const at::Tensor q_chunk = gather(q, chunk, kv_heads), o_chunk = gather(out, chunk, kv_heads),
                       do_chunk = gather(d_out, chunk, kv_heads), dq_chunk = at::empty_like(q_chunk);
      const at::Tensor k_chunk = k.narrow(1, chunk.key_begin, chunk.num_keys),
                       v_chunk = v.narrow(1, chunk.key_begin, chunk.num_keys);
      const at::Tensor p = at::bmm(q_chunk, k_chunk.transpose(1, 2)), ds = at::bmm(do_chunk, v_chunk.transpose(1, 2));
      for_units(kv_heads, rows, [&](std::int64_t head, std::int64_t block) {
        const AttentionGrads grads{.d_out = do_chunk.data_ptr<float>(),
                                   .out = o_chunk.data_ptr<float>(),
                                   .dq = dq_chunk.data_ptr<float>(),
                                   .dk_block = dkb.data_ptr<float>(),
                                   .dv_block = dvb.data_ptr<float>()};
        attention_rows_backward(rows, head, block, q_chunk.data_ptr<float>(), kb.data_ptr<float>(),
                                vb.data_ptr<float>(), lse.data_ptr<float>(), p.data_ptr<float>(), ds.data_ptr<float>(),
                                grads);
      });
      if (chunk.num_keys > 0) {
        dq_chunk.baddbmm_(ds, k_chunk);
        dk.narrow(1, chunk.key_begin, chunk.num_keys).baddbmm_(ds.transpose(1, 2), q_chunk);
        dv.narrow(1, chunk.key_begin, chunk.num_keys).baddbmm_(p.transpose(1, 2), do_chunk);
      }
      scatter(dq_chunk, chunk, dq);
    }
    const at::ScalarType type = q.scalar_type();
    return {dq, at::cat({dk, dkb}, 1).to(type), at::cat({dv, dvb}, 1).to(type), at::Tensor()};
  }
};

}  // namespace

at::Tensor plain_attention(const at::Tensor& q_HQD, const at::Tensor& k_HND, const at::Tensor& v_HND,
                           const std::shared_ptr<const KeyRanges>& ranges) {
  return RangeAttention::apply(q_HQD, k_HND, v_HND, ranges);
}

}  // namespace draftsmith
