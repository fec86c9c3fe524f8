// Hidden states of the training documents, computed when first needed and kept for later epochs: in memory up to a
// bound, then in a nameless file of the run's folder (gone with the process, however it ends), then computed again each
// time. A document's features are the same bits in all three cases: the target's figures do not depend on what it read
// before.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "draftsmith/base/progress.h"
#include "draftsmith/data/pack.h"
#include "draftsmith/target/target.h"

namespace draftsmith {

// The numbers in bf16 that are kept of one token: K taps of the hidden size and, if labels are soft, the final state.
struct FeatureWidth {
  std::int64_t taps = 0;         // K*H
  std::int64_t final_state = 0;  // H, or 0 when it is not kept
  std::int64_t bytes() const { return 2 * (taps + final_state); }
};
FeatureWidth feature_width(std::int64_t num_taps, bool with_final_state, std::int64_t hidden_size);

// The features of a pack's documents at their places, zeros elsewhere, in bf16.
struct PackFeatures {
  at::Tensor taps;         // [S, K*H]
  at::Tensor final_state;  // [S, H], the state after the final norm; undefined when it is not kept
};

struct FeatureCacheOptions {
  std::vector<std::int64_t> taps;
  bool with_final_state = false;
  std::int64_t memory_bytes = 0;
  std::int64_t disk_bytes = 0;
  std::filesystem::path folder;  // for the file; must exist when disk_bytes > 0
  NoticeFn notice = {};          // told when the disk cannot be used
};

class FeatureCache {
 public:
  // Keeps references to target and data.
  FeatureCache(Target& target, const DataSet& data, FeatureCacheOptions options);
  ~FeatureCache();
  FeatureCache(const FeatureCache&) = delete;
  FeatureCache& operator=(const FeatureCache&) = delete;

  // Features of a pack of `length` tokens. A document keeps the same length in every pack.
  PackFeatures pack_features(std::span<const DocumentSpan> documents, std::int64_t length);

  // The target's work so far.
  std::int64_t computed_tokens() const { return computed_tokens_; }
  double computed_seconds() const { return computed_seconds_; }
  // Tokens that memory and disk hold together, and whether a document is held now.
  std::int64_t capacity_tokens() const;
  bool holds(std::int64_t document) const;
  std::int64_t held_tokens() const { return held_tokens_; }

 private:
  // Memory and file hold the taps of a document's tokens, then their final states.
  struct Entry {
    std::int64_t block = -1, begin = 0;  // in memory: the block, and how many tokens stand before this document
    std::int64_t offset = -1;            // in the file, in bytes
    std::int64_t length = 0;
  };
  DocumentFeatures features_of(const DocumentSpan& document);
  DocumentFeatures compute(const DocumentSpan& document);
  void keep(Entry& entry, const DocumentFeatures& features);
  void keep_in_memory(Entry& entry, const DocumentFeatures& features);
  bool write_to_disk(Entry& entry, const DocumentFeatures& features);
  DocumentFeatures read_from_disk(const Entry& entry) const;
  // The features of `length` tokens that stand in one piece of memory, `begin` tokens after its start.
  DocumentFeatures features_in(const at::Tensor& memory, std::int64_t begin, std::int64_t length) const;

  Target& target_;
  const DataSet& data_;
  FeatureCacheOptions options_;
  FeatureWidth width_;
  std::vector<Entry> entries_;
  std::vector<at::Tensor> blocks_;                // kept memory, without shape
  std::int64_t block_size_ = 0, block_used_ = 0;  // of the newest block, in tokens
  std::int64_t memory_used_ = 0, disk_used_ = 0, held_tokens_ = 0, computed_tokens_ = 0;
  double computed_seconds_ = 0;
  int file_ = -1;
};

}  // namespace draftsmith
