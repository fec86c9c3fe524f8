// From JSON lines to a folder of prepared data: read, answer what has no answer, render, tokenise, mark what is
// supervised. Every row read is kept or skipped for a reason that is counted: read = kept + skipped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "draftsmith/base/progress.h"
#include "draftsmith/chat/answers.h"
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

struct PrepareCounts {
  std::int64_t read = 0;
  std::int64_t kept = 0;
  std::map<std::string, std::int64_t> skipped;  // reason -> rows
  std::int64_t tokens = 0;
  std::int64_t supervised_tokens = 0;
  std::int64_t answers_generated = 0;
  std::int64_t answers_cut = 0;  // of those, stopped at the limit: no end token
  std::int64_t answers_retokenised =
      0;                            // of those, whose text gives other tokens than were generated (with jsonl_folder)
  std::int64_t documents_cut = 0;   // at max_length
  std::int64_t turns_left_out = 0;  // assistant turns whose borders the template does not keep: not supervised
  struct Kind {
    std::int64_t documents = 0, tokens = 0, supervised_tokens = 0;
  };
  std::map<std::string, Kind> kinds;
  std::vector<std::string> examples;  // the first few skipped rows: "file:line: reason"
  std::int64_t num_skipped() const;
};

struct PrepareSummary {
  PrepareCounts train, eval;
  std::string text() const;  // several lines for the user
};

// `answer` may be empty: then rows without an answer are skipped. Refuses output that may not be written before any
// work, and data in which nothing is supervised. `progress` counts rows, `notice` gets what the user should know
// besides.
PrepareSummary prepare(const PrepareOptions& options, const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                       const AnswerFn& answer, const ProgressFn& progress, const NoticeFn& notice);

}  // namespace draftsmith
