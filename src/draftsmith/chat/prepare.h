// Turns JSON lines into a folder of prepared data: lines are read, missing answers generated, conversations rendered
// and tokenised, and the supervised tokens marked. Every line is kept or skipped for a reason that is counted: read =
// kept
// + skipped.
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
  std::int64_t eval_count = 0;  // lines taken out of the train files for evaluation when there are no eval files
  double eval_share = 0;        // the same as a share of the lines, 0 .. 1
  std::uint64_t seed = 1;       // decides which lines those are
  std::int64_t max_length = 0;  // tokens a document keeps; 0 = all. Longer ones are cut and get no invented end
  AnswerMode answer_mode = AnswerMode::kMissing;
  std::filesystem::path output;        // the folder that is written
  std::filesystem::path jsonl_folder;  // if set, answered chats are written here as train.jsonl and eval.jsonl
};

// With an empty `answer`, conversations without an answer are skipped. Throws a UserError before any work when the
// output may not be written, and later when nothing is supervised. `progress` counts lines; `notice` gets what else the
// user should know.
PrepareSummary prepare(const PrepareOptions& options, const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                       const AnswerFn& answer, const ProgressFn& progress, const NoticeFn& notice);

}  // namespace draftsmith
