// The target is a frozen model. It gives hidden states of documents for training, passes over one token or a block for
// decoding, and the embedding and head that the drafter shares. This is the interface; open.h picks the engine behind
// it. N tokens, K taps, H hidden, V vocabulary.
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

// Hidden states of one document. What was not asked for is undefined.
struct DocumentFeatures {
  at::Tensor taps;         // bf16 [N, K*H], in the order of the taps asked for
  at::Tensor final_state;  // bf16 [N, H], after the final norm
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
  // Appends n >= 1 tokens in one pass. Throws a UserError when length() + n is more than the capacity.
  virtual Pass extend(std::span<const std::int32_t> tokens) = 0;
  // Does the same with the logits [1, V] of the last token only, for a prompt, whose other distributions nobody needs.
  virtual Pass prefill(std::span<const std::int32_t> tokens);
  // Forgets everything after the first `length` tokens. Throws a UserError when the target cannot (can_rewind).
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

  // Both are read once, in fp32 or bf16 as TargetOptions::compute says. When tied, head() is the same tensor as
  // embedding().
  virtual at::Tensor embedding() = 0;  // [V, H]
  virtual at::Tensor head() = 0;       // [V, H]

  // Reads the document alone, with positions from 0; the result does not depend on earlier calls. `taps` are 0-based
  // layer outputs. Throws a UserError for taps, ids or a length that the target does not have.
  virtual DocumentFeatures features(std::span<const std::int32_t> document, std::span<const std::int64_t> taps,
                                    bool want_final_state) = 0;

  // Opens a session that holds up to `capacity` tokens.
  virtual std::unique_ptr<TargetSession> session(std::span<const std::int64_t> taps, std::int64_t capacity) = 0;

  // Continues each prompt until an end id (kept as the last token) or max_new_tokens, many sequences at once.
  // on_answer is called from this thread as answers finish, in any order.
  struct Answer {
    std::vector<std::int32_t> tokens;
    bool ended = false;  // reached an end id
  };
  virtual std::vector<Answer> generate(std::span<const std::vector<std::int32_t>> prompts,
                                       const GenerateOptions& options,
                                       const std::function<void(std::int64_t index, const Answer&)>& on_answer) = 0;

  // Returns a weight dequantised to fp32, with the rows of q and k in Hugging Face's order (rotate-half), or an
  // undefined tensor when the model has none. A drafter can start from these.
  virtual at::Tensor weight(const DecoderWeight& weight) = 0;

  // Returns the bytes of a bf16 copy of the weights (model.feature_weights); 0 when the engine never makes one.
  virtual std::int64_t bf16_copy_bytes() const { return 0; }
};

// The head without the rest of a target.
struct TargetHead {
  std::string tensor;  // its name in the file; the embedding's when the head is tied to it
  at::Tensor rows;     // fp32 [V, H]
};

// Every engine takes these options.
struct TargetOptions {
  std::int64_t threads = 0;              // 0 = all cores
  Compute compute = Compute::kBFloat16;  // type of embedding() and head()
  std::function<void(const std::string&)> notice = {};
};

}  // namespace draftsmith
