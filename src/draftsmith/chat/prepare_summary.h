// Holds the counts of `prepare` and the summary that it gives the user at its end.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace draftsmith {

struct PrepareCounts {
  std::int64_t read = 0;
  std::int64_t kept = 0;
  std::map<std::string, std::int64_t> skipped;  // reason -> lines
  std::int64_t tokens = 0;
  std::int64_t supervised_tokens = 0;
  std::int64_t answers_generated = 0;
  std::int64_t answers_cut = 0;          // those of them that stopped at the limit, without an end token
  std::int64_t answers_retokenised = 0;  // those of them whose text gives other tokens (counted with jsonl_folder)
  std::int64_t documents_cut = 0;        // at max_length
  std::int64_t turns_left_out = 0;  // assistant turns that are not supervised: the template does not keep their borders
  struct Kind {
    std::int64_t documents = 0, tokens = 0, supervised_tokens = 0;
  };
  std::map<std::string, Kind> kinds;
  std::vector<std::string> examples;  // the first few skipped lines: "file:line: reason"
  std::int64_t num_skipped() const;
};

struct PrepareSummary {
  PrepareCounts train, eval;
  std::string text() const;  // several lines for the user
};

}  // namespace draftsmith
