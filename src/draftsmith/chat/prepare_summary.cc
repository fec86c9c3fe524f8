#include "draftsmith/chat/prepare_summary.h"

#include <iomanip>
#include <sstream>

namespace draftsmith {
namespace {

void print_counts(std::ostream& out, const char* name, const PrepareCounts& counts) {
  out << name << ": " << counts.read << " rows read = " << counts.kept << " kept + " << counts.num_skipped()
      << " skipped; " << counts.tokens << " tokens, " << counts.supervised_tokens << " supervised\n";
  for (const auto& [reason, rows] : counts.skipped) out << "  skipped " << rows << ": " << reason << "\n";
  for (const std::string& example : counts.examples) out << "    " << example << "\n";
  if (counts.answers_generated > 0) {
    out << "  answers generated: " << counts.answers_generated << ", of which " << counts.answers_cut
        << " stopped at the limit";
    if (counts.answers_retokenised > 0)
      out << " and " << counts.answers_retokenised << " give other tokens when their text is read back";
    out << "\n";
  }
  if (counts.documents_cut > 0) out << "  cut at the maximum length: " << counts.documents_cut << "\n";
  if (counts.turns_left_out > 0) out << "  answers that are not supervised: " << counts.turns_left_out << "\n";
  for (const auto& [kind, sums] : counts.kinds) {
    out << "  " << std::left << std::setw(16) << kind << std::right << std::setw(8) << sums.documents << " documents"
        << std::setw(10) << sums.tokens << " tokens" << std::setw(10) << sums.supervised_tokens << " supervised\n";
  }
}

}  // namespace

std::int64_t PrepareCounts::num_skipped() const {
  std::int64_t sum = 0;
  for (const auto& [reason, rows] : skipped) sum += rows;
  return sum;
}

std::string PrepareSummary::text() const {
  std::ostringstream out;
  print_counts(out, "train", train);
  print_counts(out, "eval", eval);
  return out.str();
}

}  // namespace draftsmith
