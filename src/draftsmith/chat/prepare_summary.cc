#include "draftsmith/chat/prepare_summary.h"

#include <fmt/format.h>

namespace draftsmith {
namespace {

std::string counts_text(const char* name, const PrepareCounts& counts) {
  std::string out =
      fmt::format("{}: {} lines read = {} kept + {} skipped; {} tokens, {} supervised\n", name, counts.read,
                  counts.kept, counts.num_skipped(), counts.tokens, counts.supervised_tokens);
  for (const auto& [reason, lines] : counts.skipped) out += fmt::format("  skipped {}: {}\n", lines, reason);
  for (const std::string& example : counts.examples) out += "    " + example + "\n";
  if (counts.answers_generated > 0) {
    out += fmt::format("  answers generated: {}, of which {} stopped at the limit", counts.answers_generated,
                       counts.answers_cut);
    if (counts.answers_retokenised > 0)
      out += fmt::format(" and {} give other tokens when their text is read back", counts.answers_retokenised);
    out += "\n";
  }
  if (counts.documents_cut > 0) out += fmt::format("  cut at the maximum length: {}\n", counts.documents_cut);
  if (counts.turns_left_out > 0) out += fmt::format("  answers that are not supervised: {}\n", counts.turns_left_out);
  for (const auto& [kind, sums] : counts.kinds)
    out += fmt::format("  {:<16}{:8} documents{:10} tokens{:10} supervised\n", kind, sums.documents, sums.tokens,
                       sums.supervised_tokens);
  return out;
}

}  // namespace

std::int64_t PrepareCounts::num_skipped() const {
  std::int64_t sum = 0;
  for (const auto& [reason, lines] : skipped) sum += lines;
  return sum;
}

std::string PrepareSummary::text() const { return counts_text("train", train) + counts_text("eval", eval); }

}  // namespace draftsmith
