// The softmax between the two dense products of attention.cc: rows of one block for the heads of one key/value head.
// Plain pointers, fp32, contiguous. Shapes: G heads a group, R rows and C keys of the chunk, Q rows and D width in all.
#pragma once

#include <cstdint>

#include "draftsmith/nn/attention.h"

namespace draftsmith {

struct AttentionRows {
  const KeyRanges* ranges;
  std::int64_t first_row, num_rows;  // of the chunk
  std::int64_t key_begin, num_keys;  // of the chunk: column c of the scores is context key key_begin + c
  std::int64_t group, total_rows, dim;
  float scale;
};

// scores [Hkv, G*R, C]: q k in, probabilities out (0 outside a row's range). o [Hkv, G*R, D] gets the part of the
// block's own keys; lse [Hq, Q] the log-sum-exp of all a row sees, -inf when it sees nothing. q as o; k_block, v_block
// [Hkv, Q, D].
void attention_rows_forward(const AttentionRows& rows, std::int64_t kv_head, std::int64_t block, const float* q,
                            const float* k_block, const float* v_block, float* scores, float* o, float* lse);

struct AttentionGrads {
  const float* d_out;  // [Hkv, G*R, D]
  const float* out;    // [Hkv, G*R, D]
  float* dq;           // [Hkv, G*R, D], gets the part of the block's own keys
  float* dk_block;     // [Hkv, Q, D], added to
  float* dv_block;     // [Hkv, Q, D], added to
};

// p [Hkv, G*R, C]: q k in, probabilities out. ds [Hkv, G*R, C]: d_out v in, gradient with respect to q k out.
void attention_rows_backward(const AttentionRows& rows, std::int64_t kv_head, std::int64_t block, const float* q,
                             const float* k_block, const float* v_block, const float* lse, float* p, float* ds,
                             const AttentionGrads& grads);

}  // namespace draftsmith
