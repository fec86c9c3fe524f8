#include "draftsmith/bench/measure_head.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "draftsmith/base/median.h"
#include "draftsmith/base/memory.h"
#include "draftsmith/base/stopwatch.h"
#include "draftsmith/bench/random_batch.h"
#include "draftsmith/draft/loss.h"
#include "draftsmith/nn/large_blocks.h"

namespace draftsmith {
namespace {

constexpr std::uint64_t kSeed = 1;

// Every slot counts, the first of a block as well, so that all ways compute the same rows.
BlockLabels all_rows(const HeadShape& shape) {
  BlockLabels blocks;
  blocks.block_size = shape.block_size;
  blocks.num_blocks = shape.rows / shape.block_size;
  Rng rng(kSeed, RngPurpose::kSynthetic);
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    blocks.labels.push_back(static_cast<std::int32_t>(rng.below(shape.vocab)));
    blocks.counts.push_back(1.0f);
  }
  return blocks;
}

class Measure {
 public:
  Measure(const HeadShape& shape, const Place& place)
      : shape_(shape),
        blocks_(all_rows(shape)),
        hidden_(random_matrix(shape.rows, shape.hidden, 1.0, place.compute, kSeed, 1)),
        head_(random_matrix(shape.vocab, shape.hidden, 0.02, place.compute, kSeed, 2)),
        labels_(at::tensor(blocks_.labels).to(at::kLong)) {
    hidden_.set_requires_grad(true);
  }

  std::vector<HeadTime> run(std::int64_t repeats) {
    std::vector<HeadTime> all = {{.name = "ours", .seconds = {}},
                                 {.name = "plain cross-entropy", .seconds = {}},
                                 {.name = "chunks of 8 blocks", .seconds = {}},
                                 {.name = "chunks of 32 blocks", .seconds = {}},
                                 {.name = "chunks of 128 blocks", .seconds = {}}};
    const std::vector<std::int64_t> rows = {0, shape_.rows, 8 * shape_.block_size, 32 * shape_.block_size,
                                            128 * shape_.block_size};
    ours();  // the first call would otherwise pay for code and memory that all ways use
    for (std::int64_t round = 0; round < repeats; ++round) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        empty_block_cache();
        reset_peak_memory();
        const std::int64_t kept = resident_bytes();
        Stopwatch watch;
        if (i == 0)
          ours();
        else
          chunks(std::min(rows[i], shape_.rows));
        all[i].seconds.push_back(watch.lap());
        all[i].extra_bytes = std::max(all[i].extra_bytes, peak_resident_bytes() - kept);
        hidden_.mutable_grad() = at::Tensor();
      }
    }
    return all;
  }

 private:
  void ours() { head_loss(hidden_, head_, blocks_, {}); }

  // The argmax is part of it, since SpecForge's accuracy takes it too.
  void chunks(std::int64_t rows) {
    for (std::int64_t first = 0; first < shape_.rows; first += rows) {
      const std::int64_t count = std::min(rows, shape_.rows - first);
      const at::Tensor logits = at::mm(hidden_.narrow(0, first, count), head_.t());
      const at::Tensor loss = at::cross_entropy_loss(logits, labels_.narrow(0, first, count), {}, at::Reduction::Sum);
      {
        const at::NoGradGuard no_gradients;
        logits.argmax(-1);
      }
      loss.backward();
    }
  }

  const HeadShape shape_;
  const BlockLabels blocks_;
  const at::Tensor hidden_, head_, labels_;
};

}  // namespace

double HeadTime::median() const { return median_of(seconds); }

std::vector<HeadTime> measure_head(const HeadShape& shape, const Place& place, std::int64_t repeats) {
  return Measure(shape, place).run(repeats);
}

}  // namespace draftsmith
