// The report of an evaluation, as JSON for programs and as a table for people. Both state what tau counts and which
// steps are left out.
#pragma once

#include <string>

#include "draftsmith/decode/evaluate.h"

namespace draftsmith {

std::string eval_report_json(const EvalReport& report);   // indented, ends with a newline
std::string eval_report_table(const EvalReport& report);  // for people

}  // namespace draftsmith
