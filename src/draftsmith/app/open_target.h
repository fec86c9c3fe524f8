// The target of a command, opened with the checks that every command wants.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "draftsmith/base/progress.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/draft/drafter.h"
#include "draftsmith/target/target.h"

namespace draftsmith {

struct OpenTarget {
  std::filesystem::path model;
  std::int64_t threads = 0;                // 0 = all cores
  std::string compute = "bf16";            // type of embedding and head
  std::string feature_weights = "native";  // and where a copy goes
  std::filesystem::path copy_folder = {};
  const DataSet* data = nullptr;  // when set, its tokenizer must be the target's; another chat template is only noted
  NoticeFn notice = {};
};

// Sets the thread count of the process, checks the data's digests against the model, loads the model.
std::unique_ptr<Target> open_target(const OpenTarget& wanted);

// "bf16" | "fp32"; UsageError otherwise.
Compute compute_from_text(const std::string& text);

// Threads for torch and the default of every engine; 0 = all cores.
void set_threads(std::int64_t threads);

}  // namespace draftsmith
