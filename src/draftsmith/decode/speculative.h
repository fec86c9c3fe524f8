// Greedy decoding, plainly (one token per pass) and with a drafter (draft, verify, accept). It is lossless: both ways
// give the target's own choices. Target and drafter each keep a cache; the taps of each committed position enter the
// drafter's cache exactly once. n tokens of a pass, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/spec/accept.h"
#include "draftsmith/target/target.h"

namespace draftsmith {

// Says what happens to a block that would pass the token limit.
enum class LimitRule {
  kShorten,      // they offer fewer drafts, so that no pass produces more than is wanted
  kWholeBlocks,  // they stay whole, steps run while the tokens they produced are fewer than the limit, and what is past
                 // the limit is dropped: the loop of z-lab's reference decoder
};

struct DecodeOptions {
  std::int64_t max_new_tokens = 128;
  // Replace the target's end ids; when there are none, only the limit ends a request.
  std::optional<std::vector<std::int32_t>> end_ids = {};
  LimitRule limit_rule = LimitRule::kShorten;
  // Gets the tokens as they become final, in order, each once.
  std::function<void(std::span<const std::int32_t>)> on_tokens = {};
  // Serves checks, and does not count as measured time: row i of `logits` [n, V] chose new token `first` + i, if that
  // token was committed.
  std::function<void(std::int64_t first, const at::Tensor& logits)> on_logits = {};
};

struct DecodeResult {
  std::vector<std::int32_t> tokens;  // the new ones, the end id included
  std::vector<DecodeStep> steps;  // with a drafter only; the prompt's pass, which gives the first token, is not a step
  double prefill_seconds = 0;     // until the first token
  double decode_seconds = 0;      // the others
  bool ended = false;             // true: an end id ended the request; false: the limit did

  // Tokens after the first per second of decoding; 0 when there are none.
  double tokens_per_second() const;
};

DecodeResult decode_plain(Target& target, std::span<const std::int32_t> prompt, const DecodeOptions& options);

// A drafter with its target, for any number of prompts. Both must outlive it.
class SpeculativeDecoder {
 public:
  // Refuses a drafter that does not fit and a target whose cache cannot be cut back. The target's embedding and head
  // are used in the place's compute type.
  SpeculativeDecoder(Target& target, const LoadedDrafter& drafter, const Place& place);
  ~SpeculativeDecoder();
  DecodeResult decode(std::span<const std::int32_t> prompt, const DecodeOptions& options);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The first largest entry of each row of logits [n, V].
std::vector<std::int32_t> greedy_choices(const at::Tensor& logits);

}  // namespace draftsmith
