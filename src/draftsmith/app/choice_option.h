// An option of the command line whose values have names (base/choices.h).
#pragma once

#include <functional>
#include <string>

#include "draftsmith/base/check.h"
#include "draftsmith/base/choices.h"
#include "draftsmith/base/strings.h"

namespace draftsmith {

// The help text is `help` followed by the names; any other word is a UsageError.
template <class Command, Choice T>
void add_choice(Command& command, const std::string& option, T& value, const std::string& help = "") {
  const std::function<void(const std::string&)> set = [&value, option](const std::string& text) {
    const auto choice = choice_from_text<T>(text);
    if (!choice) throw UsageError(text_of(option, " is ", shown(text), ", but it must be ", choices_text<T>()));
    value = *choice;
  };
  command.template add_option_function<std::string>(option, set, help + choices_text<T>())->default_str(name_of(value));
}

}  // namespace draftsmith
