// From JSON lines to a folder of prepared data: read, answer what has no answer, render, tokenise, mark what is
// supervised. Every row read is kept or skipped for a reason that is counted: read = kept + skipped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "draftsmith/base/progress.h"
#include "draftsmith/chat/answers.h"
#include "draftsmith/chat/prepare_summary.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/text/chat_template.h"
#include "draftsmith/text/tokenizer.h"

namespace draftsmith {

struct PrepareOptions {
  std::vector<std::filesystem::path> train_files;  // JSON lines; "-" = standard input
  std::vector<std::filesystem::path> eval_files;
  std::int64_t eval_count = 0;  // rows taken out of the train files for evaluation when there are no eval files
  double eval_share = 0;        // the same as a share of the rows, 0 .. 1
  std::uint64_t seed = 1;       // decides which rows those are
  std::int64_t max_length = 0;  // tokens a document keeps; 0 = all. Longer ones are cut, never given an invented end
  AnswerMode answer_mode = AnswerMode::kMissing;
  std::filesystem::path output;  // the folder that is written
  std::filesystem::path
      jsonl_folder;  // also write the conversations with their answers here, train.jsonl and eval.jsonl
};

// `answer` may be empty: then rows without an answer are skipped. Refuses output that may not be written before any
// work, and data in which nothing is supervised. `progress` counts rows, `notice` gets what the user should know
// besides.
PrepareSummary prepare(const PrepareOptions& options, const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                       const AnswerFn& answer, const ProgressFn& progress, const NoticeFn& notice);

}  // namespace draftsmith
