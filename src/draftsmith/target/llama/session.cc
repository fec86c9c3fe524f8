// A session is one growing sequence in a context of its own.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <llama.h>

#include <algorithm>
#include <cstring>

#include "draftsmith/base/check.h"
#include "draftsmith/target/llama/gguf_target.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kRunTokens = 512;

class GgufSession final : public TargetSession {
 public:
  GgufSession(std::shared_ptr<const LoadedModel> loaded, std::span<const std::int64_t> taps, std::int64_t capacity)
      : loaded_(std::move(loaded)), capacity_(capacity), reader_(taps, loaded_->info.hidden_size, false, false) {
    const std::int64_t run = std::min(kRunTokens, capacity);
    context_ = make_context(*loaded_->model, {.num_cells = cells_for(capacity),
                                              .num_sequences = 1,
                                              .batch_tokens = run,
                                              .batch_outputs = run,
                                              .threads = loaded_->threads,
                                              .shared_cache = true,
                                              .taps = taps.empty() ? nullptr : &reader_});
  }

  std::int64_t length() const override { return length_; }

  Pass extend(std::span<const std::int32_t> tokens) override {
    return append(tokens, static_cast<std::int64_t>(tokens.size()));
  }
  Pass prefill(std::span<const std::int32_t> tokens) override { return append(tokens, 1); }

  void truncate(std::int64_t length) override {
    require(length >= 0 && length <= length_, "cannot cut a sequence of ", length_, " tokens back to ", length);
    if (length == length_) return;
    if (length == 0) {
      forget_all(*context_);
    } else {
      require(loaded_->info.can_rewind && forget_from(*context_, 0, length), "a target of architecture ",
              loaded_->info.architecture,
              " cannot forget tokens (its memory is recurrent), so it cannot be decoded with a drafter");
    }
    length_ = length;
  }

 private:
  // Returns the logits of the last `num_logits` tokens only.
  Pass append(std::span<const std::int32_t> tokens, std::int64_t num_logits) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    require(count >= 1, "a pass of the target needs at least one token");
    require(length_ + count <= capacity_, "the sequence would grow to ", length_ + count,
            " tokens, but its session holds ", capacity_);
    loaded_->check_tokens(tokens, "the sequence");
    const std::int64_t width = loaded_->info.hidden_size * reader_.num_taps(), vocab = loaded_->info.vocab_size;
    Pass pass;
    pass.logits = at::empty({num_logits, vocab}, at::kFloat);
    if (width > 0) pass.features = at::empty({count, width}, at::kFloat);
    const std::int64_t run = static_cast<std::int64_t>(llama_n_batch(context_.get()));
    Batch batch;
    for (std::int64_t first = 0; first < count; first += run) {
      const std::int64_t size = std::min(run, count - first);
      batch.clear();
      for (std::int64_t i = first; i < first + size; ++i) {
        batch.add(tokens[static_cast<std::size_t>(i)], length_ + i - first, 0, i >= count - num_logits);
      }
      if (width > 0) reader_.start(size);
      try {
        batch.run(*context_);
        if (width > 0) reader_.finish();
      } catch (...) {
        if (loaded_->info.can_rewind) forget_from(*context_, 0, length_);
        throw;
      }
      length_ += size;
      if (width > 0) {
        std::memcpy(pass.features.data_ptr<float>() + first * width, reader_.rows().data(),
                    reader_.rows().size_bytes());
      }
      // The engine keeps only the rows of logits that were asked for, in order.
      const std::int64_t first_row = std::max(first, count - num_logits), rows = first + size - first_row;
      if (rows <= 0) continue;
      const float* logits = llama_get_logits(context_.get());
      DRAFTSMITH_ASSERT(logits != nullptr);
      std::memcpy(pass.logits.data_ptr<float>() + (first_row - (count - num_logits)) * vocab, logits,
                  static_cast<std::size_t>(rows * vocab) * sizeof(float));
    }
    return pass;
  }

  std::shared_ptr<const LoadedModel> loaded_;
  std::int64_t capacity_, length_ = 0;
  TapReader reader_;  // declared before context_, which points to it
  ContextPtr context_;
};

}  // namespace

std::unique_ptr<TargetSession> make_session(std::shared_ptr<const LoadedModel> loaded,
                                            std::span<const std::int64_t> taps, std::int64_t capacity) {
  require(capacity >= 1, "a session needs room for at least one token, not ", capacity);
  require(capacity <= loaded->info.context_length, "a sequence of ", capacity, " tokens is longer than the ",
          loaded->info.context_length, " the target was trained for; shorten the prompt or ask for fewer tokens");
  return std::make_unique<GgufSession>(std::move(loaded), taps, capacity);
}

}  // namespace draftsmith
