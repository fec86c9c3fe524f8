// Makes a drafter and one pack of random numbers, of any size, so that a training step can be measured and checked
// without a model. The numbers do not depend on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "draftsmith/data/pack.h"
#include "draftsmith/draft/drafter.h"

namespace draftsmith {

// Returns uniform numbers [rows, width] of standard deviation `deviation`, in fp32 or bf16. Row r follows from (seed,
// key, r) alone.
at::Tensor random_matrix(std::int64_t rows, std::int64_t width, double deviation, at::ScalarType type,
                         std::uint64_t seed, std::uint64_t key);
// Returns the rows `ids` of such a matrix without making all of it.
at::Tensor random_matrix_rows(std::span<const std::int32_t> ids, std::int64_t width, double deviation,
                              at::ScalarType type, std::uint64_t seed, std::uint64_t key);

// Matrices are in `type` with the deviation of a usual start (0.02); norms are 1 in fp32.
std::unique_ptr<Drafter> random_drafter(const DrafterConfig& config, const Place& place, at::ScalarType type,
                                        std::uint64_t seed);
// The target's embedding and head are one table [V, H] in the place's compute type, of deviation `deviation`. A smaller
// draft vocabulary has the lowest ids.
Frozen random_frozen(const DrafterConfig& config, const Place& place, double deviation, std::uint64_t seed);

// Returns a pack of random documents of these lengths, all supervised.
Pack random_pack(const DrafterConfig& config, std::span<const std::int64_t> lengths, std::uint64_t seed);

// Draws at most `most` anchors of a pack.
std::vector<std::int64_t> random_anchors(const Pack& pack, std::int64_t most, std::uint64_t seed);

// Returns hidden states [tokens, K*H] of deviation 1.
at::Tensor random_taps(const DrafterConfig& config, std::int64_t tokens, at::ScalarType type, std::uint64_t seed);

}  // namespace draftsmith
