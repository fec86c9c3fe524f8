// Taps come through llama.cpp's public evaluation callback: its graphs name the output of layer N `l_out-N` and the
// state after the final norm `result_norm`. The staging header (llama-ext.h, llama_set_embeddings_layer_inp) would give
// the same rows, but only about fifteen of its architectures fill it in and the others stop the process with an
// assertion; here a name that does not appear is refused with an error. Both are equally fast on the
// CPU.
//
// A row has the place of its token in the batch: the engine cuts a batch into parts and runs them in order, and with
// one cache for all sequences it does not regroup them. Every source has exactly one row per token, or finish()
// refuses.
#include "draftsmith/target/llama/taps.h"

#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <cstring>

#include "draftsmith/base/check.h"

namespace draftsmith {

TapReader::TapReader(std::span<const std::int64_t> taps, std::int64_t hidden_size, bool wants_final_state,
                     bool then_stop)
    : hidden_size_(hidden_size), wants_final_state_(wants_final_state), then_stop_(then_stop) {
  for (const std::int64_t tap : taps)
    sources_.push_back({text_of("l_out-", tap), text_of("the output of layer ", tap)});
  if (wants_final_state) sources_.push_back({"result_norm", "the state after the final norm"});
}

void TapReader::start(std::int64_t num_tokens) {
  num_tokens_ = num_tokens;
  for (Source& source : sources_) source.num_rows = 0;
  rows_.resize(static_cast<std::size_t>(num_tokens * num_taps() * hidden_size_));
  final_states_.resize(wants_final_state_ ? static_cast<std::size_t>(num_tokens * hidden_size_) : 0);
  problem_.clear();
}

void TapReader::finish() const {
  require(problem_.empty(), problem_);
  for (const Source& source : sources_) {
    require(source.num_rows != 0, "llama.cpp does not show ", source.what, " for this architecture (no tensor named ",
            source.name, " in its graph), so it cannot be tapped");
    require(source.num_rows == num_tokens_, "llama.cpp showed ", source.num_rows, " rows of ", source.what, " for ",
            num_tokens_, " tokens (tensor ", source.name, "), so it cannot be tapped for this architecture");
  }
}

TapReader::Source* TapReader::find(const char* name) {
  for (Source& source : sources_) {
    if (std::strcmp(name, source.name.c_str()) == 0) return &source;
  }
  return nullptr;
}

// A part of the batch is done when every source has the same number of rows.
bool TapReader::all_seen_equally() const {
  return std::all_of(sources_.begin(), sources_.end(),
                     [&](const Source& source) { return source.num_rows == sources_.front().num_rows; });
}

void TapReader::take(const ggml_tensor& tensor, Source& source) {
  const std::int64_t count = tensor.ne[1];
  if (tensor.type != GGML_TYPE_F32 || !ggml_is_contiguous(&tensor) || tensor.ne[0] != hidden_size_ ||
      ggml_nelements(&tensor) != hidden_size_ * count || source.num_rows + count > num_tokens_) {
    problem_ = text_of("llama.cpp shows ", source.what, " as a tensor ", source.name, " of [", tensor.ne[0], ", ",
                       count, ", ", tensor.ne[2], "] ", ggml_type_name(tensor.type), " where F32 [", hidden_size_, ", ",
                       num_tokens_ - source.num_rows, "] was expected, so it cannot be tapped for this architecture");
    return;
  }
  const auto hidden = static_cast<std::size_t>(hidden_size_);
  scratch_.resize(hidden * static_cast<std::size_t>(count));
  ggml_backend_tensor_get(&tensor, scratch_.data(), 0, scratch_.size() * sizeof(float));
  const bool is_final = wants_final_state_ && &source == &sources_.back();
  const std::size_t width = is_final ? hidden : static_cast<std::size_t>(num_taps()) * hidden;
  float* to =
      is_final ? final_states_.data() : rows_.data() + static_cast<std::size_t>(&source - sources_.data()) * hidden;
  to += static_cast<std::size_t>(source.num_rows) * width;
  for (std::int64_t row = 0; row < count; ++row, to += width) {
    std::memcpy(to, scratch_.data() + static_cast<std::size_t>(row) * hidden, hidden * sizeof(float));
  }
  source.num_rows += count;
}

bool TapReader::receive(ggml_tensor* tensor, bool ask, void* self_pointer) {
  auto& self = *static_cast<TapReader*>(self_pointer);
  Source* source = self.find(tensor->name);
  if (ask) return source != nullptr;
  if (source != nullptr && self.problem_.empty()) self.take(*tensor, *source);
  return self.problem_.empty() && !(self.then_stop_ && self.all_seen_equally());
}

}  // namespace draftsmith
