// Measures a drafter on held-out prompts, which are decoded plainly and with it: tau over steps and over requests, for
// all prompts and for each kind, acceptance per slot, the speed of both, and whether the output stayed the target's.
//
// With floating point, lossless means the following. Noise is the largest difference of a logit between the one-token
// and the block passes at the same positions of this run. The place where the ids of the two decodings first differ is
// a tie when the plain pass's two best logits are within 2 x noise and noise <= 0.5; the rest of that request is then
// not compared. Any other difference is a failure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "draftsmith/base/progress.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/decode/speculative.h"

namespace draftsmith {

struct EvalOptions {
  std::int64_t prompts = 40;  // 0 = all; they are taken from the kinds in turn
  std::int64_t max_new_tokens = 128;
  Place place = {.compute = at::kFloat};  // of the drafter
  // Bytes of the plain pass's logits that are kept for the comparison, one request at a time. Positions beyond that are
  // not compared for noise.
  std::int64_t logits_bytes = std::int64_t{512} << 20;
};

enum class Comparison { kEqual, kTie, kFailure };

struct RequestReport {
  std::int64_t document = 0;  // in the evaluation set
  std::string kind;
  std::int64_t prompt_tokens = 0;
  DecodeResult plain = {}, drafted = {};
  std::vector<float> plain_margins = {};  // per new token: difference of the plain pass's two best logits
  double noise = 0;                       // of this request
  std::int64_t first_difference = -1;     // new token at which the two decodings first differ; -1 = nowhere
  double margin = 0;                      // difference of the plain pass's two best logits there
  Comparison comparison = Comparison::kEqual;
};

// Figures of all requests, or of those of one kind.
struct EvalGroup {
  std::string kind;
  AcceptanceStats acceptance;
  // Without the first token of each request, which the seconds do not count.
  std::int64_t plain_tokens = 0, drafted_tokens = 0;
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

  // True when there is no failure, and a tie in at most 1 % of the requests.
  bool lossless() const;
};

// Chooses the documents that are decoded: one of each kind in turn, in the order of the set. `num_skipped` counts the
// documents that cannot be decoded.
std::vector<std::int64_t> choose_prompts(const DataSet& eval, const TargetInfo& target, const EvalOptions& options,
                                         std::int64_t* num_skipped);

EvalReport evaluate(Target& target, const LoadedDrafter& drafter, const DataSet& eval, const EvalOptions& options,
                    const ProgressFn& progress);

}  // namespace draftsmith
