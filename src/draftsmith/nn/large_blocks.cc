#include "draftsmith/nn/large_blocks.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>

namespace draftsmith {
namespace {

constexpr std::size_t kLarge = 4'000'000, kPage = 4096;
constexpr std::size_t kMaxWaste = 8;  // a kept block serves if at most 1/8 of it stays unused

class LargeBlocks {
 public:
  void* take(std::size_t bytes) {
    const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
    const std::lock_guard lock(mutex_);
    Block block = take_kept(size);
    if (block.begin == nullptr) block = map_new(size);
    in_use_bytes_ += block.size;
    most_in_use_ = std::max(most_in_use_, in_use_bytes_);
    in_use_[block.begin] = block.size;
    return block.begin;
  }

  // False for memory of others.
  bool give(void* begin) {
    const std::lock_guard lock(mutex_);
    const auto found = in_use_.find(begin);
    if (found == in_use_.end()) return false;
    const Block block{begin, found->second};
    in_use_.erase(found);
    in_use_bytes_ -= block.size;
    kept_bytes_ += block.size;
    kept_.push_back(block);
    return true;
  }

  void release() {
    const std::lock_guard lock(mutex_);
    while (!kept_.empty()) unmap_oldest();
  }

 private:
  struct Block {
    void* begin = nullptr;
    std::size_t size = 0;
  };

  // The smallest that fits, the one let go last among equals.
  Block take_kept(std::size_t size) {
    auto best = kept_.end();
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      if (it->size < size || it->size - size > it->size / kMaxWaste) continue;
      if (best == kept_.end() || it->size <= best->size) best = it;
    }
    if (best == kept_.end()) return {};
    const Block block = *best;
    kept_.erase(best);
    kept_bytes_ -= block.size;
    return block;
  }

  Block map_new(std::size_t size) {
    while (!kept_.empty() && in_use_bytes_ + kept_bytes_ + size > most_in_use_) unmap_oldest();
    for (;;) {
      void* begin = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (begin != MAP_FAILED) return {begin, size};
      if (kept_.empty()) throw std::bad_alloc();
      unmap_oldest();
    }
  }

  void unmap_oldest() {
    ::munmap(kept_.front().begin, kept_.front().size);
    kept_bytes_ -= kept_.front().size;
    kept_.pop_front();
  }

  std::mutex mutex_;
  std::unordered_map<void*, std::size_t> in_use_;
  std::deque<Block> kept_;  // in the order they were let go
  std::size_t in_use_bytes_ = 0, kept_bytes_ = 0, most_in_use_ = 0;
};

LargeBlocks& large_blocks() {
  static auto* blocks = new LargeBlocks;  // tensors may outlive every static object
  return *blocks;
}

class Allocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes < kLarge) return others_->allocate(bytes);
    void* begin = large_blocks().take(bytes);
    return {begin, begin, &give, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

 private:
  static void give(void* begin) {
    if (!large_blocks().give(begin)) c10::GetDefaultCPUAllocator()->raw_deleter()(begin);
  }
  c10::Allocator* const others_ = c10::GetDefaultCPUAllocator();
};

}  // namespace

void reuse_large_blocks() {
  static auto* allocator = new Allocator;
  c10::SetCPUAllocator(allocator);
}

void release_large_blocks() { large_blocks().release(); }

}  // namespace draftsmith
