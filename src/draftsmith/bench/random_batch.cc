#include "draftsmith/bench/random_batch.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/BFloat16.h>

#include <cmath>
#include <numeric>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/families.h"

namespace draftsmith {
namespace {

enum Key : std::uint64_t { kEmbedding = 1, kFeatures = 2, kTokens = 3, kFirstParameter = 16 };

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
  at::Tensor out = at::empty({rows, width}, at::TensorOptions(type));
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

std::unique_ptr<Drafter> random_drafter(const DrafterConfig& config, const Place& place, at::ScalarType type,
                                        std::uint64_t seed) {
  std::uint64_t key = kFirstParameter;
  return make_drafter(config, place, [&](const std::string&, const at::Tensor& shape, Role role) {
    ++key;
    if (role == Role::kNorm) return at::ones(shape.sizes(), place.floats());
    if (role == Role::kBias) return at::zeros(shape.sizes(), place.floats());
    return random_matrix(shape.size(0), shape.size(1), 0.02, type, seed, key);
  });
}

Frozen random_frozen(const DrafterConfig& config, const Place& place, double deviation, std::uint64_t seed) {
  const at::Tensor table =
      random_matrix(config.vocab_size, config.hidden_size, deviation, place.compute, seed, kEmbedding);
  DraftVocab vocab;
  vocab.ids.resize(static_cast<std::size_t>(config.draft_vocab_size));
  std::iota(vocab.ids.begin(), vocab.ids.end(), 0);
  return freeze(table, table, vocab, place);
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

std::vector<std::int64_t> random_anchors(const Pack& pack, std::int64_t most, std::uint64_t seed) {
  Rng rng(seed, RngPurpose::kAnchors);
  return sample_anchors(pack, {.per_document = most, .per_pack = most}, rng);
}

at::Tensor random_taps(const DrafterConfig& config, std::int64_t tokens, at::ScalarType type, std::uint64_t seed) {
  return random_matrix(tokens, config.num_taps() * config.hidden_size, 1.0, type, seed, kFeatures);
}

}  // namespace draftsmith
