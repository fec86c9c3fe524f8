// Decides whether a run may go on from a checkpoint. A change of the model, the packs, the anchors or the order is
// refused by its key; other changes are allowed, and a notice names them.
#pragma once

#include <filesystem>
#include <string>

#include "draftsmith/base/progress.h"
#include "draftsmith/config/run_config.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/draft/drafter_config.h"
#include "draftsmith/run/checkpoint.h"

namespace draftsmith {

struct ResumeCheck {
  const std::filesystem::path& checkpoint;
  const TrainState& state;
  const DrafterConfig& stored_drafter;
  const RunConfig& config;
  const DrafterConfig& drafter;
  const DataSet& data;
  const std::string& target;
};
// Throws UserError naming the key, or returns whether the stored number of steps still holds (nothing that decides it
// has changed).
bool check_resume(const ResumeCheck& check, const NoticeFn& notice);

// SHA-256 of tokens, supervision and document borders.
std::string digest_of(const DataSet& data);

}  // namespace draftsmith
