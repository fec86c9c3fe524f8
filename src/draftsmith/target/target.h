// The frozen target model: hidden states of documents for training, one-by-one or block passes for decoding, and the
// embedding and head that the drafter shares. This is the interface; open.h picks the engine behind it. Everything is
// fp32 in memory unless a name says bf16. N tokens, K taps, H hidden, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "draftsmith/base/choices.h"
#include "draftsmith/model/decoder_shape.h"
#include "draftsmith/model/layer_names.h"

namespace draftsmith {

struct TargetInfo : DecoderShape {
  std::string name;                   // general.name or the file's name
  std::string architecture;           // e.g. "llama"
  bool tied_head = true;              // the head is the embedding
  std::vector<std::int32_t> end_ids;  // end of generation, ascending
  bool can_rewind = true;             // false: recurrent or hybrid cache; decoding with a drafter is refused by name
};

// Hidden states of one document: taps bf16 [N, K*H], in the order of the taps asked for; final bf16 [N, H] (after the
// final norm) when asked for, else undefined.
struct DocumentFeatures {
  at::Tensor taps;
  at::Tensor final_state;
};

// One growing sequence with its KV cache.
class TargetSession {
 public:
  struct Pass {
    at::Tensor logits;    // fp32 [n, V], the distribution after each of the n tokens
    at::Tensor features;  // fp32 [n, K*H]; undefined when the session has no taps
  };
  virtual ~TargetSession() = default;
  virtual std::int64_t length() const = 0;
  // Appends n >= 1 tokens in one pass. The caller keeps length() + n within capacity.
  virtual Pass extend(std::span<const std::int32_t> tokens) = 0;
  // As extend(), with the logits [1, V] of the last token only: for a prompt, whose other distributions nobody needs.
  virtual Pass prefill(std::span<const std::int32_t> tokens);
  // Forgets everything after the first `length` tokens.
  virtual void truncate(std::int64_t length) = 0;
};

struct GenerateOptions {
  std::int64_t max_new_tokens = 256;
  double temperature = 0;  // 0 = greedy
  double top_p = 1;
  std::int64_t top_k = 0;
  std::uint64_t seed = 1;      // answer i depends on (seed, i) only, not on what runs beside it
  std::int64_t parallel = 16;  // sequences at once
};

class Target {
 public:
  virtual ~Target() = default;
  virtual const TargetInfo& info() const = 0;

  // Frozen, kept once: fp32 or bf16 as `compute` asks. head() is the same tensor as embedding() when
  // tied.
  virtual at::Tensor embedding() = 0;  // [V, H]
  virtual at::Tensor head() = 0;       // [V, H]

  // The document alone, positions from 0; the figures do not depend on what was asked before. taps: 0-based layer
  // outputs.
  virtual DocumentFeatures features(std::span<const std::int32_t> document, std::span<const std::int64_t> taps,
                                    bool want_final_state) = 0;

  virtual std::unique_ptr<TargetSession> session(std::span<const std::int64_t> taps, std::int64_t capacity) = 0;

  // Continues each prompt until an end id (kept as the last token) or max_new_tokens; many sequences at once.
  // on_answer is called from this thread as answers finish, in any order.
  struct Answer {
    std::vector<std::int32_t> tokens;
    bool ended = false;  // reached an end id
  };
  virtual std::vector<Answer> generate(std::span<const std::vector<std::int32_t>> prompts,
                                       const GenerateOptions& options,
                                       const std::function<void(std::int64_t index, const Answer&)>& on_answer) = 0;

  // A weight of the target, dequantised to fp32, rows in Hugging Face order (rotate-half) for q and k; undefined when
  // the model has no such tensor. Used to start a drafter from the target's layers.
  virtual at::Tensor weight(const DecoderWeight& weight) = 0;

  // What a copy of the weights in bf16 would take (model.feature_weights); 0 when the engine never makes one.
  virtual std::int64_t bf16_copy_bytes() const { return 0; }
};

// The head without the rest of a target.
struct TargetHead {
  std::string tensor;  // its name in the file; the embedding's when the head is tied to it
  at::Tensor rows;     // fp32 [V, H]
};

// What every engine is asked for.
struct TargetOptions {
  std::int64_t threads = 0;              // 0 = all cores
  Compute compute = Compute::kBFloat16;  // type of embedding() and head()
  std::function<void(const std::string&)> notice = {};
};

}  // namespace draftsmith
