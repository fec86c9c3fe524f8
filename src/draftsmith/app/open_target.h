// Opens the target of a command, with the checks that every command needs.
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

// The tokenizer of `model`, a file that the target can be opened from too.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& model);
// The same; UserError unless `data` was prepared with it, and a notice when the chat template is another one.
std::unique_ptr<Tokenizer> tokenizer_of(const std::filesystem::path& model, const DataSet& data,
                                        const NoticeFn& notice);

// Sets the number of threads for torch, which is also every engine's default; 0 = all cores.
void set_threads(std::int64_t threads);

}  // namespace draftsmith
