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

struct FeatureCacheOptions {
  std::vector<std::int64_t> taps;
  bool with_final_state = false;  // behind the taps, H more columns: the state after the final norm
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

  // bf16 [length, K*H (+ H)]: the features of the documents at their places, zeros elsewhere. A document keeps the same
  // length in every row.
  at::Tensor row(std::span<const DocumentSpan> documents, std::int64_t length);

  // What the target has cost so far.
  std::int64_t computed_tokens() const { return computed_tokens_; }
  double computed_seconds() const { return computed_seconds_; }
  // Tokens that memory and disk hold together, and whether a document is held now.
  std::int64_t capacity_tokens() const;
  bool holds(std::int64_t document) const;
  std::int64_t held_tokens() const { return held_tokens_; }

 private:
  struct Entry {
    std::int64_t block = -1, row = 0;  // in memory
    std::int64_t offset = -1;          // in the file
    std::int64_t length = 0;
  };
  at::Tensor features_of(const DocumentSpan& document);
  at::Tensor compute(const DocumentSpan& document);
  void keep(Entry& entry, const at::Tensor& features);
  void keep_in_memory(Entry& entry, const at::Tensor& features);
  bool write_to_disk(Entry& entry, const at::Tensor& features);
  at::Tensor read_from_disk(const Entry& entry) const;

  Target& target_;
  const DataSet& data_;
  FeatureCacheOptions options_;
  std::int64_t width_ = 0;  // K*H (+ H)
  std::vector<Entry> entries_;
  std::vector<at::Tensor> blocks_;  // kept memory, and how many rows of the newest are taken
  std::int64_t block_used_ = 0;
  std::int64_t memory_used_ = 0, disk_used_ = 0, held_tokens_ = 0, computed_tokens_ = 0;
  double computed_seconds_ = 0;
  int file_ = -1;
};

}  // namespace draftsmith
