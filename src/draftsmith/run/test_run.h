// For tests: a tiny run in one process.
#pragma once

#include "draftsmith/ranks/ranks.h"
#include "draftsmith/run/training_run.h"
#include "draftsmith/train/fake_target.h"

namespace draftsmith {

inline TrainSummary train_alone(TinyRun& run, const DrafterConfig& drafter, bool resume, const TrainHooks& hooks) {
  Alone ranks;
  return train({.config = run.config,
                .target = run.target,
                .data = run.data,
                .drafter = drafter,
                .ranks = ranks,
                .resume = resume},
               hooks);
}

}  // namespace draftsmith
