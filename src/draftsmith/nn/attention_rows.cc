#include "draftsmith/nn/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "draftsmith/nn/vec.h"

namespace draftsmith {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

DRAFTSMITH_INLINE float dot(const float* a, const float* b, std::int64_t n) {
  Vec s = {};
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec x, y;
    load(x, a + i, n - i);
    load(y, b + i, n - i);
    s += x * y;
  }
  return sum_of(s);
}

// y += a x
DRAFTSMITH_INLINE void add_scaled(float* y, float a, const float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec u, v;
    load(u, y + i, n - i);
    load(v, x + i, n - i);
    u += a * v;
    store(y + i, u, n - i);
  }
}

// x = exp(x * scale - shift); returns the sum.
DRAFTSMITH_INLINE float exp_sum(float* x, float scale, float shift, std::int64_t n) {
  Vec s = {};
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec v;
    load(v, x + i, n - i, kMinusInfinity);
    v = v * scale - shift;
    exp_in_place(v);
    store(x + i, v, n - i);
    if (n - i >= kLanes) {
      s += v;
    } else {
      for (std::int64_t lane = 0; lane < n - i; ++lane) s[lane] += v[lane];
    }
  }
  return sum_of(s);
}

DRAFTSMITH_INLINE void multiply(float* x, float a, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec v;
    load(v, x + i, n - i);
    v *= a;
    store(x + i, v, n - i);
  }
}

// One row: what it sees, and where its data lie.
struct Row {
  std::int64_t index;       // of all query rows
  std::int64_t stacked;     // of the chunk's [Hkv, G*R]
  std::int64_t begin, end;  // columns of the scores it sees
  std::int64_t block_begin, block_end;
};

DRAFTSMITH_INLINE Row row_at(const AttentionRows& rows, std::int64_t kv_head, std::int64_t g, std::int64_t r) {
  const KeyRanges& ranges = *rows.ranges;
  const std::int64_t index = rows.first_row + r;
  Row row{.index = index,
          .stacked = (kv_head * rows.group + g) * rows.num_rows + r,
          .begin = ranges.context_begin[index] - rows.key_begin,
          .end = ranges.context_end[index] - rows.key_begin,
          .block_begin = ranges.block_begin[index],
          .block_end = ranges.block_end[index]};
  if (row.end <= row.begin) row.begin = row.end = 0;
  return row;
}

DRAFTSMITH_CLONES void forward_row(const AttentionRows& rows, const Row& row, const float* q, const float* k_block,
                                   const float* v_block, float* scores, float* o, float* lse, float* block_scores) {
  const std::int64_t dim = rows.dim;
  const std::int64_t num_seen = row.end - row.begin,
                     num_block = std::max<std::int64_t>(0, row.block_end - row.block_begin);
  for (std::int64_t j = 0; j < num_block; ++j) block_scores[j] = dot(q, k_block + (row.block_begin + j) * dim, dim);
  const float top =
      std::max(largest_of(scores + row.begin, num_seen), largest_of(block_scores, num_block)) * rows.scale;
  std::fill(scores, scores + row.begin, 0.0f);
  std::fill(scores + row.end, scores + rows.num_keys, 0.0f);
  std::fill(o, o + dim, 0.0f);
  if (num_seen + num_block == 0) {
    *lse = kMinusInfinity;
    return;
  }
  const float sum =
      exp_sum(scores + row.begin, rows.scale, top, num_seen) + exp_sum(block_scores, rows.scale, top, num_block);
  multiply(scores + row.begin, 1.0f / sum, num_seen);
  for (std::int64_t j = 0; j < num_block; ++j) {
    add_scaled(o, block_scores[j] / sum, v_block + (row.block_begin + j) * dim, dim);
  }
  *lse = top + std::log(sum);
}

// ds = p (ds - delta) scale over the row's range
DRAFTSMITH_INLINE void score_gradient(const float* p, float* ds, float delta, float scale, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec u, v;
    load(u, p + i, n - i);
    load(v, ds + i, n - i);
    v = u * (v - delta) * scale;
    store(ds + i, v, n - i);
  }
}

DRAFTSMITH_CLONES void backward_row(const AttentionRows& rows, const Row& row, const float* q, const float* k_block,
                                    const float* v_block, float lse, float* p, float* ds, const float* d_out,
                                    const float* out, float* dq, float* dk_block, float* dv_block) {
  const std::int64_t dim = rows.dim, num_seen = row.end - row.begin;
  for (float* x : {p, ds}) {
    std::fill(x, x + row.begin, 0.0f);
    std::fill(x + row.end, x + rows.num_keys, 0.0f);
  }
  std::fill(dq, dq + dim, 0.0f);
  if (lse == kMinusInfinity) return;
  const float delta = dot(d_out, out, dim);
  exp_sum(p + row.begin, rows.scale, lse, num_seen);
  score_gradient(p + row.begin, ds + row.begin, delta, rows.scale, num_seen);
  for (std::int64_t j = row.block_begin; j < row.block_end; ++j) {
    const float *k = k_block + j * dim, *v = v_block + j * dim;
    const float weight = std::exp(dot(q, k, dim) * rows.scale - lse);
    const float d_score = weight * (dot(d_out, v, dim) - delta) * rows.scale;
    add_scaled(dq, d_score, k, dim);
    add_scaled(dk_block + j * dim, d_score, q, dim);
    add_scaled(dv_block + j * dim, weight, d_out, dim);
  }
}

}  // namespace

void attention_rows_forward(const AttentionRows& rows, std::int64_t kv_head, std::int64_t block, const float* q,
                            const float* k_block, const float* v_block, float* scores, float* o, float* lse) {
  const std::int64_t size = rows.ranges->block_size, head_offset = kv_head * rows.total_rows * rows.dim;
  std::vector<float> block_scores(static_cast<std::size_t>(size));
  for (std::int64_t g = 0; g < rows.group; ++g) {
    for (std::int64_t r = block * size; r < (block + 1) * size; ++r) {
      const Row row = row_at(rows, kv_head, g, r);
      forward_row(rows, row, q + row.stacked * rows.dim, k_block + head_offset, v_block + head_offset,
                  scores + row.stacked * rows.num_keys, o + row.stacked * rows.dim,
                  lse + (kv_head * rows.group + g) * rows.total_rows + row.index, block_scores.data());
    }
  }
}

void attention_rows_backward(const AttentionRows& rows, std::int64_t kv_head, std::int64_t block, const float* q,
                             const float* k_block, const float* v_block, const float* lse, float* p, float* ds,
                             const AttentionGrads& grads) {
  const std::int64_t size = rows.ranges->block_size, head_offset = kv_head * rows.total_rows * rows.dim;
  for (std::int64_t g = 0; g < rows.group; ++g) {
    for (std::int64_t r = block * size; r < (block + 1) * size; ++r) {
      const Row row = row_at(rows, kv_head, g, r);
      const std::int64_t at = row.stacked * rows.dim;
      backward_row(rows, row, q + at, k_block + head_offset, v_block + head_offset,
                   lse[(kv_head * rows.group + g) * rows.total_rows + row.index], p + row.stacked * rows.num_keys,
                   ds + row.stacked * rows.num_keys, grads.d_out + at, grads.out + at, grads.dq + at,
                   grads.dk_block + head_offset, grads.dv_block + head_offset);
    }
  }
}

}  // namespace draftsmith
