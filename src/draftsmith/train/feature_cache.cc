#include "draftsmith/train/feature_cache.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kElementBytes = 2;  // bf16
constexpr std::int64_t kBlockBytes = std::int64_t{64} << 20;

// A file without a name: a crash leaves nothing behind.
int nameless_file(const std::filesystem::path& folder) {
  std::string name = (folder / ".features-XXXXXX").string();
  const int file = mkstemp(name.data());
  if (file >= 0) unlink(name.c_str());
  return file;
}

}  // namespace

FeatureCache::FeatureCache(Target& target, const DataSet& data, FeatureCacheOptions options)
    : target_(target), data_(data), options_(std::move(options)), entries_(data.num_documents()) {
  const auto states = static_cast<std::int64_t>(options_.taps.size()) + (options_.with_final_state ? 1 : 0);
  width_ = states * target.info().hidden_size;
}

FeatureCache::~FeatureCache() {
  if (file_ >= 0) close(file_);
}

std::int64_t FeatureCache::capacity_tokens() const {
  return (options_.memory_bytes + options_.disk_bytes) / std::max<std::int64_t>(width_ * kElementBytes, 1);
}

bool FeatureCache::holds(std::int64_t document) const {
  const Entry& entry = entries_[document];
  return entry.block >= 0 || entry.offset >= 0;
}

at::Tensor FeatureCache::row(std::span<const DocumentSpan> documents, std::int64_t length) {
  at::Tensor out = at::zeros({length, width_}, at::kBFloat16);
  for (const DocumentSpan& document : documents)
    out.narrow(0, document.begin, document.length).copy_(features_of(document));
  return out;
}

at::Tensor FeatureCache::features_of(const DocumentSpan& document) {
  Entry& entry = entries_[document.document];
  DRAFTSMITH_ASSERT(entry.length == 0 || entry.length == document.length);
  entry.length = document.length;
  if (entry.block >= 0) return blocks_[static_cast<std::size_t>(entry.block)].narrow(0, entry.row, entry.length);
  if (entry.offset >= 0) return read_from_disk(entry);
  at::Tensor features = compute(document);
  keep(entry, features);
  return features;
}

at::Tensor FeatureCache::compute(const DocumentSpan& document) {
  const auto start = std::chrono::steady_clock::now();
  const std::span<const std::int32_t> tokens = data_.tokens_of(document.document).first(document.length);
  const DocumentFeatures features = target_.features(tokens, options_.taps, options_.with_final_state);
  at::Tensor rows = features.taps.to(at::kBFloat16);
  if (options_.with_final_state) rows = at::cat({rows, features.final_state.to(at::kBFloat16)}, 1);
  DRAFTSMITH_ASSERT(rows.size(0) == document.length && rows.size(1) == width_);
  computed_tokens_ += document.length;
  computed_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return rows.contiguous();
}

void FeatureCache::keep(Entry& entry, const at::Tensor& features) {
  const std::int64_t bytes = features.numel() * kElementBytes;
  if (memory_used_ + bytes <= options_.memory_bytes) {
    keep_in_memory(entry, features);
    memory_used_ += bytes;
  } else if (disk_used_ + bytes > options_.disk_bytes || !write_to_disk(entry, features)) {
    return;
  }
  held_tokens_ += features.size(0);
}

// Blocks far above what the allocator keeps in its heap, and nothing else that stays for a document: what comes and
// goes with every step would leave gaps around it, in the end as large as the features themselves.
void FeatureCache::keep_in_memory(Entry& entry, const at::Tensor& features) {
  const std::int64_t tokens = features.size(0);
  if (blocks_.empty() || blocks_.back().size(0) - block_used_ < tokens) {
    const std::int64_t rows = kBlockBytes / std::max<std::int64_t>(width_ * kElementBytes, 1);
    blocks_.push_back(at::empty({std::max(rows, tokens), width_}, at::kBFloat16));
    block_used_ = 0;
  }
  blocks_.back().narrow(0, block_used_, tokens).copy_(features);
  entry.block = static_cast<std::int64_t>(blocks_.size()) - 1;
  entry.row = block_used_;
  block_used_ += tokens;
}

bool FeatureCache::write_to_disk(Entry& entry, const at::Tensor& features) {
  if (file_ < 0) file_ = nameless_file(options_.folder);
  const auto* bytes = static_cast<const char*>(features.const_data_ptr());
  const std::int64_t size = features.numel() * kElementBytes;
  std::int64_t written = 0;
  while (file_ >= 0 && written < size) {
    const ssize_t n = pwrite(file_, bytes + written, size - written, disk_used_ + written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    written += n;
  }
  if (written < size) {
    options_.disk_bytes = 0;  // what is there stays readable; nothing more is put there
    if (options_.notice)
      options_.notice(text_of("the feature cache cannot grow in ", options_.folder.string(), " (", std::strerror(errno),
                              "); features that do not fit are computed again each epoch"));
    return false;
  }
  entry.offset = disk_used_;
  disk_used_ += size;
  return true;
}

at::Tensor FeatureCache::read_from_disk(const Entry& entry) const {
  at::Tensor out = at::empty({entry.length, width_}, at::kBFloat16);
  auto* bytes = static_cast<char*>(out.mutable_data_ptr());
  const std::int64_t size = out.numel() * kElementBytes;
  for (std::int64_t done = 0; done < size;) {
    const ssize_t n = pread(file_, bytes + done, size - done, entry.offset + done);
    if (n < 0 && errno == EINTR) continue;
    require(n > 0, "cannot read the feature cache in ", options_.folder.string(), ": ", std::strerror(errno));
    done += n;
  }
  return out;
}

}  // namespace draftsmith
