#include "draftsmith/bench/random_row.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>

#include <cmath>
#include <numeric>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

enum Key : std::uint64_t { kEmbedding = 1, kFeatures = 2, kTokens = 3, kFirstParameter = 16 };

constexpr double kEmbeddingDeviation = 0.1;

template <class T>
void fill_row(T* out, std::int64_t width, double deviation, Rng rng) {
  const double most = deviation * std::sqrt(3.0);
  for (std::int64_t i = 0; i < width; ++i) out[i] = static_cast<T>(static_cast<float>((2 * rng.uniform() - 1) * most));
}

}  // namespace

at::Tensor random_matrix_rows(std::span<const std::int32_t> ids, std::int64_t width, double deviation,
                              at::ScalarType type, std::uint64_t seed, std::uint64_t key) {
  DRAFTSMITH_ASSERT(type == at::kFloat || type == at::kBFloat16);
  const auto rows = static_cast<std::int64_t>(ids.size());
  const at::Tensor out = at::empty({rows, width}, at::TensorOptions(type));
  at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const Rng rng(seed, RngPurpose::kSynthetic, {key, static_cast<std::uint64_t>(ids[static_cast<std::size_t>(r)])});
      if (type == at::kFloat)
        fill_row(out.data_ptr<float>() + r * width, width, deviation, rng);
      else
        fill_row(out.data_ptr<at::BFloat16>() + r * width, width, deviation, rng);
    }
  });
  return out;
}

at::Tensor random_matrix(std::int64_t rows, std::int64_t width, double deviation, at::ScalarType type,
                         std::uint64_t seed, std::uint64_t key) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(rows));
  std::iota(ids.begin(), ids.end(), 0);
  return random_matrix_rows(ids, width, deviation, type, seed, key);
}

DrafterParams random_drafter(const DrafterConfig& config, at::ScalarType type, std::uint64_t seed) {
  DrafterParams params = shape_params(config);
  std::uint64_t key = kFirstParameter;
  visit_params(params, [&](const std::string&, at::Tensor& t) {
    if (t.dim() == 1) {
      t = at::empty(t.sizes(), at::TensorOptions(at::kFloat)).fill_(1.0);
    } else {
      t = random_matrix(t.size(0), t.size(1), 0.02, type, seed, key);
    }
    ++key;
  });
  return params;
}

Pack random_pack(const DrafterConfig& config, std::span<const std::int64_t> lengths, std::uint64_t seed) {
  Rng rng(seed, RngPurpose::kSynthetic, {kTokens});
  Pack pack;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    pack.documents.push_back({.document = static_cast<std::int64_t>(d), .begin = pack.length, .length = lengths[d]});
    for (std::int64_t i = 0; i < lengths[d]; ++i) {
      pack.token_ids.push_back(static_cast<std::int32_t>(rng.below(config.vocab_size)));
      pack.document_ids.push_back(static_cast<std::int32_t>(d));
      pack.position_ids.push_back(i);
      pack.loss_mask.push_back(1);
    }
    pack.length += lengths[d];
  }
  return pack;
}

at::Tensor random_features(const DrafterConfig& config, std::int64_t tokens, at::ScalarType type, std::uint64_t seed) {
  return random_matrix(tokens, config.num_taps() * config.hidden_size, 1.0, type, seed, kFeatures);
}

RandomRow random_row(const DrafterConfig& config, Pack pack, std::span<const std::int64_t> anchors, AttentionPath path,
                     at::ScalarType type, std::uint64_t seed) {
  RandomRow row{.pack = std::move(pack), .blocks = {}, .features = {}, .block_embeddings = {}};
  row.blocks = make_block_inputs(row.pack, anchors, config, path);
  row.features = random_features(config, row.pack.length, type, seed);
  row.block_embeddings =
      random_matrix_rows(row.blocks.block_token_ids, config.hidden_size, kEmbeddingDeviation, type, seed, kEmbedding);
  return row;
}

}  // namespace draftsmith
