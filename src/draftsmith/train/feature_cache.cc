#include "draftsmith/train/feature_cache.h"

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

constexpr std::int64_t kBlockBytes = std::int64_t{64} << 20;

// A file without a name: a crash leaves nothing behind.
int nameless_file(const std::filesystem::path& folder) {
  std::string name = (folder / ".features-XXXXXX").string();
  const int file = mkstemp(name.data());
  if (file >= 0) unlink(name.c_str());
  return file;
}

// Writes or reads (pwrite, pread) all of `size` bytes from `offset` on; false when the system does not, errno says why.
template <class Call, class Bytes>
bool transfer(Call call, int file, Bytes* bytes, std::int64_t size, std::int64_t offset) {
  for (std::int64_t done = 0; done < size;) {
    const ssize_t n = call(file, bytes + done, size - done, offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += n;
  }
  return true;
}

void copy_features(const DocumentFeatures& from, const DocumentFeatures& to) {
  to.taps.copy_(from.taps);
  if (to.final_state.defined()) to.final_state.copy_(from.final_state);
}

}  // namespace

FeatureWidth feature_width(std::int64_t num_taps, bool with_final_state, std::int64_t hidden_size) {
  return {.taps = num_taps * hidden_size, .final_state = with_final_state ? hidden_size : 0};
}

FeatureCache::FeatureCache(Target& target, const DataSet& data, FeatureCacheOptions options)
    : target_(target),
      data_(data),
      options_(std::move(options)),
      width_(feature_width(static_cast<std::int64_t>(options_.taps.size()), options_.with_final_state,
                           target.info().hidden_size)),
      entries_(data.num_documents()) {}

FeatureCache::~FeatureCache() {
  if (file_ >= 0) close(file_);
}

std::int64_t FeatureCache::capacity_tokens() const {
  return (options_.memory_bytes + options_.disk_bytes) / std::max<std::int64_t>(width_.bytes(), 1);
}

bool FeatureCache::holds(std::int64_t document) const {
  const Entry& entry = entries_[document];
  return entry.block >= 0 || entry.offset >= 0;
}

PackFeatures FeatureCache::pack_features(std::span<const DocumentSpan> documents, std::int64_t length) {
  PackFeatures out;
  out.taps = at::zeros({length, width_.taps}, at::kBFloat16);
  if (options_.with_final_state) out.final_state = at::zeros({length, width_.final_state}, at::kBFloat16);
  for (const DocumentSpan& document : documents) {
    DocumentFeatures place{.taps = out.taps.narrow(0, document.begin, document.length), .final_state = {}};
    if (options_.with_final_state) place.final_state = out.final_state.narrow(0, document.begin, document.length);
    copy_features(features_of(document), place);
  }
  return out;
}

DocumentFeatures FeatureCache::features_in(const at::Tensor& memory, std::int64_t begin, std::int64_t length) const {
  const std::int64_t first = begin * (width_.taps + width_.final_state), taps = length * width_.taps;
  DocumentFeatures out{.taps = memory.narrow(0, first, taps).view({length, width_.taps}), .final_state = {}};
  if (options_.with_final_state)
    out.final_state = memory.narrow(0, first + taps, length * width_.final_state).view({length, width_.final_state});
  return out;
}

DocumentFeatures FeatureCache::features_of(const DocumentSpan& document) {
  Entry& entry = entries_[document.document];
  DRAFTSMITH_ASSERT(entry.length == 0 || entry.length == document.length);
  entry.length = document.length;
  if (entry.block >= 0) return features_in(blocks_[static_cast<std::size_t>(entry.block)], entry.begin, entry.length);
  if (entry.offset >= 0) return read_from_disk(entry);
  DocumentFeatures features = compute(document);
  keep(entry, features);
  return features;
}

DocumentFeatures FeatureCache::compute(const DocumentSpan& document) {
  const auto start = std::chrono::steady_clock::now();
  const std::span<const std::int32_t> tokens = data_.tokens_of(document.document).first(document.length);
  DocumentFeatures features = target_.features(tokens, options_.taps, options_.with_final_state);
  const auto is_as_asked = [&](const at::Tensor& rows, std::int64_t width) {
    return rows.scalar_type() == at::kBFloat16 && rows.is_contiguous() && rows.dim() == 2 &&
           rows.size(0) == document.length && rows.size(1) == width;
  };
  DRAFTSMITH_ASSERT(is_as_asked(features.taps, width_.taps));
  DRAFTSMITH_ASSERT(!options_.with_final_state || is_as_asked(features.final_state, width_.final_state));
  computed_tokens_ += document.length;
  computed_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return features;
}

void FeatureCache::keep(Entry& entry, const DocumentFeatures& features) {
  const std::int64_t bytes = entry.length * width_.bytes();
  if (memory_used_ + bytes <= options_.memory_bytes) {
    keep_in_memory(entry, features);
    memory_used_ += bytes;
  } else if (disk_used_ + bytes > options_.disk_bytes || !write_to_disk(entry, features)) {
    return;
  }
  held_tokens_ += entry.length;
}

// Blocks far above what the allocator keeps in its heap, and nothing else that stays for a document: what comes and
// goes with every step would leave gaps around it, in the end as large as the features themselves.
void FeatureCache::keep_in_memory(Entry& entry, const DocumentFeatures& features) {
  if (blocks_.empty() || block_size_ - block_used_ < entry.length) {
    block_size_ = std::max(kBlockBytes / std::max<std::int64_t>(width_.bytes(), 1), entry.length);
    block_used_ = 0;
    blocks_.push_back(at::empty({block_size_ * (width_.taps + width_.final_state)}, at::kBFloat16));
  }
  copy_features(features, features_in(blocks_.back(), block_used_, entry.length));
  entry.block = static_cast<std::int64_t>(blocks_.size()) - 1;
  entry.begin = block_used_;
  block_used_ += entry.length;
}

bool FeatureCache::write_to_disk(Entry& entry, const DocumentFeatures& features) {
  if (file_ < 0) file_ = nameless_file(options_.folder);
  std::int64_t end = disk_used_;
  const auto append = [&](const at::Tensor& rows) {
    const auto size = static_cast<std::int64_t>(rows.nbytes());
    const bool written = transfer(pwrite, file_, static_cast<const char*>(rows.const_data_ptr()), size, end);
    end += size;
    return written;
  };
  if (file_ < 0 || !append(features.taps) || (options_.with_final_state && !append(features.final_state))) {
    options_.disk_bytes = 0;  // what is there stays readable; nothing more is put there
    if (options_.notice)
      options_.notice(text_of("the feature cache cannot grow in ", options_.folder.string(), " (", std::strerror(errno),
                              "); features that do not fit are computed again each epoch"));
    return false;
  }
  entry.offset = disk_used_;
  disk_used_ = end;
  return true;
}

DocumentFeatures FeatureCache::read_from_disk(const Entry& entry) const {
  const at::Tensor memory = at::empty({entry.length * (width_.taps + width_.final_state)}, at::kBFloat16);
  auto* bytes = static_cast<char*>(memory.mutable_data_ptr());
  require(transfer(pread, file_, bytes, static_cast<std::int64_t>(memory.nbytes()), entry.offset),
          "cannot read the feature cache in ", options_.folder.string(), ": ", std::strerror(errno));
  return features_in(memory, 0, entry.length);
}

}  // namespace draftsmith
