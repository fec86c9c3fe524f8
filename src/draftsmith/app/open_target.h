// The target of a command, opened with the checks that every command wants.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "draftsmith/base/choices.h"
#include "draftsmith/base/progress.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/target/open.h"
#include "draftsmith/text/tokenizer.h"

namespace draftsmith {

struct OpenTarget {
  std::filesystem::path model;
  std::int64_t threads = 0;              // 0 = all cores
  Compute compute = Compute::kBFloat16;  // type of embedding and head
  NoticeFn notice = {};
  LlamaOptions llama = {};
};

// Sets the thread count of the process and loads the model.
std::unique_ptr<Target> open_target(const OpenTarget& wanted);

// The vocabulary of `model`, of which the target can be opened too.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& model);
// The same, when `data` was prepared with it: UserError if not, a notice for another chat template.
std::unique_ptr<Tokenizer> tokenizer_of(const std::filesystem::path& model, const DataSet& data,
                                        const NoticeFn& notice);

// Threads for torch and the default of every engine; 0 = all cores.
void set_threads(std::int64_t threads);

}  // namespace draftsmith
