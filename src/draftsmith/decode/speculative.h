// Greedy decoding, plainly (one token a pass) and with a drafter (draft, verify, accept). Lossless: both give the
// target's own choices. Caches on both sides; the feature of each committed position enters the drafter's cache exactly
// once. n tokens of a pass, V vocabulary.
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

// What happens to the blocks that would pass the token limit.
enum class LimitRule {
  kShorten,      // they offer fewer drafts, so that no pass produces more than is wanted
  kWholeBlocks,  // they stay whole, steps run while the tokens they produced are fewer than the limit, and what is past
                 // the limit is dropped: the loop of z-lab's reference decoder
};

struct DecodeOptions {
  std::int64_t max_new_tokens = 128;
  std::optional<std::vector<std::int32_t>> end_ids = {};  // instead of the target's; empty: nothing ends but the limit
  LimitRule limit_rule = LimitRule::kShorten;
  // Tokens as they become final, in order, none twice.
  std::function<void(std::span<const std::int32_t>)> on_tokens = {};
  // For checks, outside the measured time: row i of `logits` [n, V] chose new token `first` + i, as far as it was
  // committed.
  std::function<void(std::int64_t first, const at::Tensor& logits)> on_logits = {};
};

struct DecodeResult {
  std::vector<std::int32_t> tokens;  // the new ones, the end id included
  std::vector<DecodeStep> steps;     // with a drafter only; the prompt's own pass, which gives the first token, is none
  double prefill_seconds = 0;        // until the first token
  double decode_seconds = 0;         // the others
  bool ended = false;                // by an end id, else by the limit

  // Tokens after the first per second of decoding; 0 when there are none.
  double tokens_per_second() const;
};

DecodeResult decode_plain(Target& target, std::span<const std::int32_t> prompt, const DecodeOptions& options);

// Refuses, in a sentence, a drafter that was trained for another target: width, depth, taps, vocabulary, mask token.
void check_drafter_fits(const TargetInfo& target, const DrafterConfig& config);

// A drafter beside its target, for any number of prompts. Both outlive it.
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
