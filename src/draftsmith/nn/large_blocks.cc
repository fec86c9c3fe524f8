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
constexpr std::size_t kMaxWaste = 8;  // a cached block serves if at most 1/8 of it stays unused

class LargeBlocks {
 public:
  void* take(std::size_t bytes) {
    const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
    const std::lock_guard lock(mutex_);
    Block block = take_cached(size);
    if (block.begin == nullptr) block = map_new(size);
    in_use_bytes_ += block.size;
    most_in_use_ = std::max(most_in_use_, in_use_bytes_);
    in_use_[block.begin] = block.size;
    return block.begin;
  }

  // Returns false when the memory is not ours.
  bool give(void* begin) {
    const std::lock_guard lock(mutex_);
    const auto found = in_use_.find(begin);
    if (found == in_use_.end()) return false;
    const Block block{begin, found->second};
    in_use_.erase(found);
    in_use_bytes_ -= block.size;
    cached_bytes_ += block.size;
    cached_.push_back(block);
    return true;
  }

  void release() {
    const std::lock_guard lock(mutex_);
    while (!cached_.empty()) unmap_oldest();
  }

 private:
  struct Block {
    void* begin = nullptr;
    std::size_t size = 0;
  };

  // Takes the smallest cached block that fits; among equals, the one that was freed last.
  Block take_cached(std::size_t size) {
    auto best = cached_.end();
    for (auto it = cached_.begin(); it != cached_.end(); ++it) {
      if (it->size < size || it->size - size > it->size / kMaxWaste) continue;
      if (best == cached_.end() || it->size <= best->size) best = it;
    }
    if (best == cached_.end()) return {};
    const Block block = *best;
    cached_.erase(best);
    cached_bytes_ -= block.size;
    return block;
  }

  Block map_new(std::size_t size) {
    while (!cached_.empty() && in_use_bytes_ + cached_bytes_ + size > most_in_use_) unmap_oldest();
    for (;;) {
      void* begin = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (begin != MAP_FAILED) return {begin, size};
      if (cached_.empty()) throw std::bad_alloc();
      unmap_oldest();
    }
  }

  void unmap_oldest() {
    ::munmap(cached_.front().begin, cached_.front().size);
    cached_bytes_ -= cached_.front().size;
    cached_.pop_front();
  }

  std::mutex mutex_;
  std::unordered_map<void*, std::size_t> in_use_;
  std::deque<Block> cached_;  // in the order they were freed
  std::size_t in_use_bytes_ = 0, cached_bytes_ = 0, most_in_use_ = 0;
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

void install_block_cache() {
  static auto* allocator = new Allocator;
  c10::SetCPUAllocator(allocator);
}

void empty_block_cache() { large_blocks().release(); }

}  // namespace draftsmith
