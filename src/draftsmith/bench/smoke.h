// Does a drafter of this size compute? Forward and backward over random rows at the recipe's full width, before anyone
// rents a machine for it: what is asked of the numbers, how long it takes, how much memory it needs. No model is read;
// matrices are in the compute type without masters or moments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "draftsmith/base/progress.h"
#include "draftsmith/config/run_config.h"
#include "draftsmith/draft/drafter.h"

namespace draftsmith {

struct SmokeOptions {
  // A whole row of so many tokens in four documents and at most so many anchors, its layers computed again on the way
  // back; 0: two small rows instead (documents of 50 + 30 tokens; one of 80), with every valid anchor.
  std::int64_t row_tokens = 0, anchors = 0;
  NoticeFn notice = {};  // told what runs now
};

struct SmokePass {
  std::string name;
  std::int64_t tokens = 0, anchors = 0;
  double loss = 0, accuracy = 0;
  double forward_seconds = 0, head_seconds = 0, backward_seconds = 0;
  std::int64_t peak_bytes = 0;  // of the process, parameters included
};

struct SmokeCheck {
  std::string name;
  bool ok = false;
  std::string detail;  // the figure that was judged
};

struct SmokeReport {
  std::int64_t parameters = 0;
  std::vector<SmokePass> passes;
  std::vector<SmokeCheck> checks;
  bool all_ok() const;
};
SmokeReport smoke(const RunConfig& config, const DrafterConfig& drafter, const SmokeOptions& options);
// The same for a drafter that is there already, whose gradients are cleared.
SmokeReport smoke(Drafter& drafter, const Frozen& frozen, const RunConfig& config, const SmokeOptions& options);

// The drafter's shape from a recipe alone: model.vocab_size, model.num_layers and every size in `draft` must be given.
DrafterConfig drafter_config_without_target(const RunConfig& config);

// A table of the passes and the checks, ending with a newline.
std::string to_text(const SmokeReport& report);

}  // namespace draftsmith
