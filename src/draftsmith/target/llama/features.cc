// Reads the features of a document. A long one takes several runs of the engine, whose cache holds what came before.
// Features depend neither on the documents read before nor on the number of runs (beyond the rounding of a quantised
// engine). Nothing after the last wanted layer is computed.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "draftsmith/base/check.h"
#include "draftsmith/target/llama/gguf_target.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kRunTokens = 512;

// Rounds `numbers` to bf16 into the rows of `out` from `first_row` on.
void write_rows(std::span<const float> numbers, std::int64_t first_row, const at::Tensor& out) {
  const std::int64_t width = out.size(1), num_rows = static_cast<std::int64_t>(numbers.size()) / width;
  const at::Tensor view = at::from_blob(const_cast<float*>(numbers.data()), {num_rows, width}, at::kFloat);
  out.narrow(0, first_row, num_rows).copy_(view);
}

}  // namespace

void FeatureReader::prepare(std::int64_t length, std::span<const std::int64_t> taps, bool want_final_state) {
  const std::int64_t cells = std::max(cells_for(length), kRunTokens);
  const bool same = context_ && std::equal(taps.begin(), taps.end(), taps_.begin(), taps_.end()) &&
                    wants_final_state_ == want_final_state && cells <= num_cells_;
  if (same) return;
  context_.reset();
  taps_.assign(taps.begin(), taps.end());
  wants_final_state_ = want_final_state;
  num_cells_ = std::max(cells, num_cells_);
  reader_ = std::make_unique<TapReader>(taps_, loaded_->info.hidden_size, want_final_state, true);
  context_ = make_context(*loaded_->model, {.num_cells = num_cells_,
                                            .num_sequences = 1,
                                            .batch_tokens = kRunTokens,
                                            .batch_outputs = want_final_state ? kRunTokens : 1,
                                            .threads = loaded_->threads,
                                            .shared_cache = true,
                                            .taps = reader_.get()});
}

void FeatureReader::run(std::span<const std::int32_t> tokens, std::int64_t position, const DocumentFeatures& out) {
  Batch batch;
  for (std::int64_t i = 0; const std::int32_t token : tokens) batch.add(token, position + i++, 0, wants_final_state_);
  reader_->start(batch.size());
  batch.run(*context_);
  reader_->finish();
  if (out.taps.defined()) write_rows(reader_->rows(), position, out.taps);
  if (out.final_state.defined()) write_rows(reader_->final_states(), position, out.final_state);
}

DocumentFeatures FeatureReader::read(std::span<const std::int32_t> document, std::span<const std::int64_t> taps,
                                     bool want_final_state) {
  require(!taps.empty() || want_final_state, "no features were asked for: name at least one tap");
  loaded_->check_tokens(document, "a document");
  const TargetInfo& info = loaded_->info;
  const auto length = static_cast<std::int64_t>(document.size());
  require(length <= info.context_length, "a document of ", length, " tokens is longer than the ", info.context_length,
          " the target was trained for; shorten the documents (data.max_length)");
  prepare(length, taps, want_final_state);
  forget_all(*context_);
  DocumentFeatures out;
  const auto num_taps = static_cast<std::int64_t>(taps.size());
  if (num_taps > 0) out.taps = at::empty({length, num_taps * info.hidden_size}, at::kBFloat16);
  if (want_final_state) out.final_state = at::empty({length, info.hidden_size}, at::kBFloat16);
  for (std::int64_t first = 0; first < length; first += kRunTokens)
    run(document.subspan(first, std::min(kRunTokens, length - first)), first, out);
  return out;
}

}  // namespace draftsmith
