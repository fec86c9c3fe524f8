// Reads the outputs of chosen layers, and the state after the final norm, while llama.cpp runs a batch.
// K taps, H hidden; rows are tokens in the order they were put into the batch (contexts with a shared cache only).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

struct ggml_tensor;

namespace draftsmith {

class TapReader {
 public:
  // `taps` are 0-based layers in the order of a row. With `then_stop`, nothing after the last wanted layer is computed,
  // and the context gives no logits.
  TapReader(std::span<const std::int64_t> taps, std::int64_t hidden_size, bool wants_final_state, bool then_stop);

  // Call start() before Batch::run() with `num_tokens` tokens, and finish() after it. finish() throws a UserError that
  // names a layer that was not seen or had another shape.
  void start(std::int64_t num_tokens);
  void finish() const;

  std::span<const float> rows() const { return rows_; }                  // [num_tokens, K*H] of the batch
  std::span<const float> final_states() const { return final_states_; }  // [num_tokens, H]
  std::int64_t num_taps() const { return static_cast<std::int64_t>(sources_.size()) - (wants_final_state_ ? 1 : 0); }

  static bool receive(ggml_tensor* tensor, bool ask, void* self);  // ggml_backend_sched_eval_callback

 private:
  struct Source {
    std::string name;  // of the tensor in the engine's graph
    std::string what;  // in words
    std::int64_t num_rows = 0;
  };
  Source* find(const char* name);
  bool all_seen_equally() const;
  void take(const ggml_tensor& tensor, Source& source);

  std::vector<Source> sources_;  // the taps, then the final state
  std::int64_t hidden_size_;
  bool wants_final_state_, then_stop_;
  std::int64_t num_tokens_ = 0;
  std::vector<float> rows_, final_states_, scratch_;
  std::string problem_;  // exceptions may not cross the engine's C code
};

}  // namespace draftsmith
