// The report of an evaluation, for programs and for people. Conventions are said in both: what tau counts, which steps
// are left out.
#pragma once

#include <string>

#include "draftsmith/decode/evaluate.h"

namespace draftsmith {

std::string eval_report_json(const EvalReport& report);   // indented, ends with a newline
std::string eval_report_table(const EvalReport& report);  // for people

}  // namespace draftsmith
