// Heads of every width read and write the caller's rows and nothing beside them: pages that may not be touched stand
// before and behind each tensor, and what lies between rows keeps its bits.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>

#include "flex/test_problem.h"

namespace flex {
namespace {

enum class Edge { kBegin, kEnd };  // where the tensor touches a page that may not be touched

// Gives a tensor pages of its own between two that fault.
class FencedPages {
 public:
  explicit FencedPages(std::size_t bytes) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    inside_ = (bytes + page_ - 1) / page_ * page_;
    void* all = mmap(nullptr, inside_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    first_ = static_cast<char*>(all);
    if (mprotect(begin(), inside_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  }
  ~FencedPages() { munmap(first_, inside_ + 2 * page_); }
  FencedPages(const FencedPages&) = delete;
  FencedPages& operator=(const FencedPages&) = delete;
  char* begin() const { return first_ + page_; }
  char* end() const { return begin() + inside_; }

 private:
  std::size_t page_, inside_ = 0;
  char* first_ = nullptr;
};

// Moves tensors to where their first or their last row touches a fence.
class Fences {
 public:
  explicit Fences(Edge edge) : edge_(edge) {}
  template <class T>
  void move(Tensor<T>& tensor) {
    const std::int64_t rows = tensor.view.size[0] * tensor.view.size[1] * tensor.view.size[2];
    if (rows == 0) return;
    const std::int64_t between = static_cast<std::int64_t>(tensor.memory.size() - 1) / rows;
    const auto bytes = static_cast<std::size_t>((rows - 1) * between + tensor.view.size[3]) * sizeof(T);
    const FencedPages& pages = pages_.emplace_back(bytes);
    char* to = edge_ == Edge::kBegin ? pages.begin() : pages.end() - bytes;
    std::memcpy(to, tensor.memory.data(), bytes);
    tensor.view.data = reinterpret_cast<T*>(to);
  }

 private:
  Edge edge_;
  std::deque<FencedPages> pages_;
};

constexpr Shape shape_of_width(std::int64_t dim) {
  return {.batch = 2, .heads = 4, .kv_heads = 2, .queries = 21, .context = 37, .block = 21, .dim = dim};
}

BlockMask causal_mask(const Shape& shape) {
  return BlockMask::build(Causal{shape.context}, {.num_queries = shape.queries,
                                                  .num_keys = shape.context + shape.block,
                                                  .num_context = shape.context,
                                                  .tile_rows = tile_rows_for(shape.heads / shape.kv_heads)});
}

template <class T>
void expect_same_within_fences(std::int64_t dim, Layout layout, Isa isa) {
  const Shape shape = shape_of_width(dim);
  const BlockMask mask = causal_mask(shape);
  Serial serial;
  Case<T> open(shape, layout, 3);
  open.run(mask, Identity{}, isa, serial);
  const ReferenceResult expected = open.result();
  for (const Edge edge : {Edge::kBegin, Edge::kEnd}) {
    Case<T> c(shape, layout, 3);
    Fences fences(edge);
    for (Tensor<T>* tensor : c.all()) fences.move(*tensor);
    fences.move(c.lse);
    c.run(mask, Identity{}, isa, serial);
    const ReferenceResult got = c.result();
    EXPECT_EQ(got.o, expected.o);
    EXPECT_EQ(got.lse, expected.lse);
    EXPECT_EQ(got.dq, expected.dq);
    EXPECT_EQ(got.dk, expected.dk);
    EXPECT_EQ(got.dv, expected.dv);
  }
}

TEST(Widths, NothingIsTouchedBeforeOrBehindATensor) {
  for (const std::int64_t dim : kOddWidths) {
    for (const Isa isa : isas()) {
      SCOPED_TRACE(std::to_string(dim) + ", " + std::string(name_of(isa)));
      for (const Layout layout : {Layout::kDense, Layout::kHeadsInside, Layout::kWideRows}) {
        expect_same_within_fences<float>(dim, layout, isa);
        expect_same_within_fences<BFloat16>(dim, layout, isa);
      }
    }
  }
}

// Writes a pattern between the rows; says whether it is still there.
template <class T>
class Canary {
 public:
  explicit Canary(Tensor<T>& tensor) : tensor_(tensor) {
    std::vector<char> inside(tensor.memory.size(), 0);
    tensor.for_each([&](auto, auto, auto, auto, T& x) { inside[static_cast<std::size_t>(&x - tensor.view.data)] = 1; });
    for (std::size_t i = 0; i < inside.size(); ++i) {
      if (inside[i] != 0) continue;
      outside_.push_back(i);
      tensor.memory[i] = from_float<T>(kPattern);
    }
  }
  bool lives() const {
    for (const std::size_t i : outside_)
      if (to_float(tensor_.memory[i]) != kPattern) return false;
    return !outside_.empty();
  }

 private:
  static constexpr float kPattern = -77.0f;
  Tensor<T>& tensor_;
  std::vector<std::size_t> outside_;
};

template <class T>
void expect_canaries_live(std::int64_t dim, Isa isa) {
  const Shape shape = shape_of_width(dim);
  Case<T> c(shape, Layout::kWideRows, 3);
  std::vector<Canary<T>> canaries;
  for (Tensor<T>* tensor : c.all()) canaries.emplace_back(*tensor);
  const Canary<float> of_lse(c.lse);
  Serial serial;
  c.run(causal_mask(shape), Identity{}, isa, serial);
  for (const Canary<T>& canary : canaries) EXPECT_TRUE(canary.lives());
  EXPECT_TRUE(of_lse.lives());
}

TEST(Widths, WhatLiesBetweenRowsStays) {
  for (const std::int64_t dim : kOddWidths) {
    for (const Isa isa : isas()) {
      SCOPED_TRACE(std::to_string(dim) + ", " + std::string(name_of(isa)));
      expect_canaries_live<float>(dim, isa);
      expect_canaries_live<BFloat16>(dim, isa);
    }
  }
}

}  // namespace
}  // namespace flex
