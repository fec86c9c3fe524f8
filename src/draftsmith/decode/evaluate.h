// How good a drafter is: held-out prompts decoded plainly and with it. tau both ways, in all and per kind of prompt,
// acceptance per slot, speed of both, and the check that nothing was lost.
//
// Lossless with floating point: noise is the largest difference of a logit between the one-token and the block passes
// at the same positions of this run. Where the ids of the two decodings differ first, it is a tie when the plain pass's
// two best logits are within 2 x noise and noise <= 0.5; the rest of that request is then not compared. Anything else
// is a failure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "draftsmith/base/progress.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/decode/speculative.h"

namespace draftsmith {

struct EvalOptions {
  std::int64_t prompts = 40;  // 0 = all; taken from the kinds in turn
  std::int64_t max_new_tokens = 128;
  Place place = {.compute = at::kFloat};  // of the drafter
  // Logits of the plain pass kept for the comparison, one request at a time; positions beyond are not compared for
  // noise.
  std::int64_t logits_bytes = std::int64_t{512} << 20;
};

enum class Comparison { kEqual, kTie, kFailure };

struct RequestReport {
  std::int64_t document = 0;  // in the evaluation set
  std::string kind;
  std::int64_t prompt_tokens = 0;
  DecodeResult plain = {}, drafted = {};
  std::vector<float> plain_margins = {};  // per new token: between the plain pass's two best logits
  double noise = 0;                       // of this request
  std::int64_t first_difference = -1;     // new token at which the two decodings part; -1 = nowhere
  double margin = 0;                      // there: between the plain pass's two best logits
  Comparison comparison = Comparison::kEqual;
};

// Figures of all requests, or of those of one kind.
struct EvalGroup {
  std::string kind;
  AcceptanceStats acceptance;
  std::int64_t plain_tokens = 0, drafted_tokens = 0;  // after the first of each request: those that the seconds count
  double plain_seconds = 0, drafted_seconds = 0;
  double plain_tokens_per_second() const { return plain_seconds > 0 ? double(plain_tokens) / plain_seconds : 0; }
  double drafted_tokens_per_second() const {
    return drafted_seconds > 0 ? double(drafted_tokens) / drafted_seconds : 0;
  }
};

struct EvalReport {
  std::string target;
  std::int64_t block_size = 0;
  std::int64_t max_new_tokens = 0;
  EvalGroup all = {};
  std::vector<EvalGroup> kinds = {};  // empty when the set has no kinds; in the order of their names in the set
  std::vector<RequestReport> requests = {};
  std::int64_t num_skipped = 0;  // documents without a prompt or an answer, or too long for the target's context
  double noise = 0;
  std::int64_t num_compared_positions = 0;
  std::int64_t num_ties = 0;
  std::int64_t num_failures = 0;

  // Zero failures, ties in at most 1 % of the requests.
  bool lossless() const;
};

// Which documents are decoded: those that can be, one of each kind in turn, in the order of the set. `num_skipped`
// counts the documents that cannot.
std::vector<std::int64_t> choose_prompts(const DataSet& eval, const TargetInfo& target, const EvalOptions& options,
                                         std::int64_t* num_skipped);

EvalReport evaluate(Target& target, const LoadedDrafter& drafter, const DataSet& eval, const EvalOptions& options,
                    const ProgressFn& progress);

}  // namespace draftsmith
