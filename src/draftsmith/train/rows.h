// Which packed rows make up each optimizer step. Steps do not cross epochs: the last step of an epoch takes the rows
// that are left, so data smaller than one step still gives a step. Everything follows from (data, seed, step): nothing
// to remember when a run is resumed.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "draftsmith/config/run_config.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/data/pack.h"

namespace draftsmith {

struct StepRows {
  std::int64_t epoch = 0;
  std::int64_t first_row = 0;                        // index in the epoch's plan
  std::vector<std::vector<std::int64_t>> rows = {};  // document indices of each row
};

// Documents that the held-out loss is measured on: at most eval.prompts, spread evenly.
DataSet held_out_documents(const DataFolder& data, const RunConfig& config);
// What their hidden states may take in memory; the training documents' bound is train.feature_cache_mb.
std::int64_t held_out_cache_mb(const RunConfig& config);

class RowSchedule {
 public:
  // Keeps references to both. UserError when no document has a valid anchor.
  RowSchedule(const DataSet& data, const RunConfig& config);

  // False beyond the epochs or train.max_steps.
  bool has(std::int64_t step);
  StepRows at(std::int64_t step);
  // All steps that epochs and max_steps allow; plans every epoch it counts.
  std::int64_t num_steps();

  // Rows of the first epoch and the tokens that training sees in them; later epochs have about as many.
  struct Size {
    std::int64_t rows = 0, tokens = 0;
  };
  const Size& epoch_size() const { return epoch_size_; }

  const PackPlan& plan(std::int64_t epoch);
  PackOptions pack_options(std::int64_t epoch) const;
  AnchorOptions anchor_options() const;
  std::int64_t kept_length(std::int64_t document) const;  // tokens of the document that training sees

 private:
  bool reach(std::int64_t step);  // extends starts_ until it covers `step`; false when the epochs end before

  const DataSet& data_;
  const RunConfig& config_;
  Size epoch_size_;
  std::vector<std::int64_t> starts_ = {
      0};  // first step of epochs 0 .. size-1; the last entry ends what is counted so far
  std::map<std::int64_t, PackPlan> plans_;  // the few used last
};

}  // namespace draftsmith
