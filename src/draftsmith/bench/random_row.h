// A drafter and one packed row made of random numbers, of any size: what a training step needs, for measuring and
// checking without a model. The same numbers whatever the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "draftsmith/data/pack.h"
#include "draftsmith/draft/drafter.h"

namespace draftsmith {

// Uniform numbers of standard deviation `deviation`; row r follows from (seed, key, r) alone. fp32 or bf16.
at::Tensor random_matrix(std::int64_t rows, std::int64_t width, double deviation, at::ScalarType type,
                         std::uint64_t seed, std::uint64_t key);
// Rows `ids` of such a matrix that is never made whole.
at::Tensor random_matrix_rows(std::span<const std::int32_t> ids, std::int64_t width, double deviation,
                              at::ScalarType type, std::uint64_t seed, std::uint64_t key);

// Matrices in `type` with the deviation of a usual start (0.02), norms 1 in fp32.
DrafterParams random_drafter(const DrafterConfig& config, at::ScalarType type, std::uint64_t seed);

// Random tokens of documents of these lengths, all supervised.
Pack random_pack(const DrafterConfig& config, std::span<const std::int64_t> lengths, std::uint64_t seed);

// Hidden states of `tokens` positions [S, K*H], of deviation 1.
at::Tensor random_features(const DrafterConfig& config, std::int64_t tokens, at::ScalarType type, std::uint64_t seed);

// What one pass reads beside the parameters, for the anchors that are given: features of deviation 1 and embeddings of
// the tokens in them, both in `type`.
struct RandomRow {
  Pack pack;
  BlockInputs blocks;
  at::Tensor features, block_embeddings;
  ForwardInputs inputs() const {
    return {.features = features, .block_embeddings = block_embeddings, .blocks = &blocks};
  }
};
RandomRow random_row(const DrafterConfig& config, Pack pack, std::span<const std::int64_t> anchors, AttentionPath path,
                     at::ScalarType type, std::uint64_t seed);

}  // namespace draftsmith
