// The processes that train one drafter together. Each holds the whole drafter and takes its share of a step's packs;
// sums go over all of them, decisions are taken once, and the first one writes files and prints.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace draftsmith {

// All ranks make the same calls in the same order, with tensors of the same shape and type.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual std::int64_t rank() const = 0;  // 0 .. size - 1
  virtual std::int64_t size() const = 0;

  // Replaces `values` on every rank by the sum of all ranks' values. Every rank gets the same bits.
  virtual void sum(const at::Tensor& values) = 0;
  // Replaces `values` on every rank by those of the first.
  virtual void broadcast(const at::Tensor& values) = 0;

  // True on every rank when it is true on any of them.
  bool agree(bool wish);
  // Returns the number that the first rank gives.
  std::int64_t agree(std::int64_t number);

  // True for the rank that writes files and prints.
  bool first() const { return rank() == 0; }
  // True when this rank works on piece `index` of work that is cut into pieces.
  bool takes(std::int64_t index) const { return index % size() == rank(); }
};

// One process that trains alone: sums and broadcasts leave the values as they are.
class Alone : public Ranks {
 public:
  std::int64_t rank() const override { return 0; }
  std::int64_t size() const override { return 1; }
  void sum(const at::Tensor&) override {}
  void broadcast(const at::Tensor&) override {}
};

}  // namespace draftsmith
