// Runs a recipe's drafter on random packs at its full width, forward and backward, before anyone rents a machine for
// it. It checks the numbers and measures time and memory. No model is read; matrices are in the compute type, without
// masters or moments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "draftsmith/base/progress.h"
#include "draftsmith/config/run_config.h"
#include "draftsmith/draft/drafter.h"

namespace draftsmith {

struct SmokeOptions {
  // Runs one pack of this many tokens, in four documents with at most `anchors` anchors, and recomputes its layers in
  // the backward pass. 0 runs two small packs instead (documents of 50 + 30 tokens; one of 80), with every valid
  // anchor.
  std::int64_t row_tokens = 0, anchors = 0;
  NoticeFn notice = {};  // is told what runs now
};

struct SmokePass {
  std::string name;
  std::int64_t tokens = 0, anchors = 0;
  double loss = 0, accuracy = 0;
  double forward_seconds = 0, head_seconds = 0, backward_seconds = 0;
  std::int64_t peak_bytes = 0;  // peak of the process, parameters included
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
// Does the same for a given drafter, whose gradients are cleared.
SmokeReport smoke(Drafter& drafter, const Frozen& frozen, const RunConfig& config, const SmokeOptions& options);

// Returns the drafter's shape from a recipe alone. Throws a UserError unless model.vocab_size, model.num_layers and
// every size in `draft` are given.
DrafterConfig drafter_config_without_target(const RunConfig& config);

// Prints a table of the passes and the checks, ending with a newline.
std::string to_text(const SmokeReport& report);

}  // namespace draftsmith
