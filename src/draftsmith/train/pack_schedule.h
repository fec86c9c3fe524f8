// The schedule says which packs make up each optimizer step. Steps do not cross epochs: the last step of an epoch takes
// the packs that are left, so data smaller than one step still gives a step. Everything follows from (data, seed,
// step): nothing has to be remembered when a run is resumed, and every rank knows the packs of all.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "draftsmith/config/run_config.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/data/pack.h"

namespace draftsmith {

struct StepPacks {
  std::int64_t epoch = 0;
  std::int64_t first_pack = 0;                        // index in the epoch's plan
  std::vector<std::vector<std::int64_t>> packs = {};  // document indices of each pack
};

// Documents that the held-out loss is measured on: at most eval.prompts, spread evenly.
DataSet held_out_documents(const DataFolder& data, const RunConfig& config);
// Bound of the memory for their hidden states; the training documents' bound is train.feature_cache_mb.
std::int64_t held_out_cache_mb(const RunConfig& config);

// Both give the options of a run; the order of the documents depends on the epoch.
PackOptions pack_options(const RunConfig& config, std::int64_t epoch);
AnchorOptions anchor_options(const RunConfig& config);

class PackSchedule {
 public:
  // Keeps references to both. UserError when no document has a valid anchor.
  PackSchedule(const DataSet& data, const RunConfig& config);

  // False beyond the epochs or train.max_steps.
  bool has(std::int64_t step);
  // The packs of a step that is there.
  StepPacks at(std::int64_t step);
  // All steps that epochs and max_steps allow; plans every epoch it counts.
  std::int64_t num_steps();

  // Packs of the first epoch and the tokens that training sees in them; later epochs have about as many.
  struct Size {
    std::int64_t packs = 0, tokens = 0;
  };
  const Size& epoch_size() const { return epoch_size_; }

  const PackPlan& plan(std::int64_t epoch);
  // Documents of one pack of an epoch -> the pack.
  Pack make(const std::vector<std::int64_t>& documents, std::int64_t epoch) const;
  // Tokens of these documents that training sees.
  std::int64_t num_tokens(const std::vector<std::int64_t>& documents) const;
  std::int64_t kept_length(std::int64_t document) const;  // tokens of the document that training sees

 private:
  bool count_to(std::int64_t step);  // extends starts_ until it covers `step`; false when the epochs end before

  const DataSet& data_;
  const RunConfig& config_;
  Size epoch_size_;
  // First step of each epoch counted so far; the last entry is the first step after them.
  std::vector<std::int64_t> starts_ = {0};
  std::map<std::int64_t, PackPlan> plans_;  // the few used last
};

}  // namespace draftsmith
