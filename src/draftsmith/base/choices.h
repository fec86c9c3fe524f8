// Settings that are one of a few named things: an enum and, beside it, the one list of its names. Parsers, messages,
// help and printing read that list; a value that is in none of them never leaves the parser. The choices that rooms
// below the configuration share stand here too.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace draftsmith {

template <class Enum>
struct ChoiceName {
  Enum value;
  const char* name;
  const char* note = "";  // stands in brackets behind the name in help
};

// An enum is a choice when names_of(value), found beside it, lists its names.
template <class T>
concept Choice = requires(T value) {
  names_of(value);
};

template <Choice T>
constexpr const char* name_of(T value) {
  for (const auto& choice : names_of(value))
    if (choice.value == value) return choice.name;
  return "?";
}

template <Choice T>
std::optional<T> choice_from_text(std::string_view text) {
  for (const auto& choice : names_of(T()))
    if (text == choice.name) return choice.value;
  return std::nullopt;
}

enum class Notes { kNone, kShown };

// "a, b or c": every name of T, then `last` when something else may be written as well.
template <Choice T>
std::string choices_text(Notes notes = Notes::kNone, const std::string& last = "") {
  std::string out;
  const auto names = names_of(T());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string note = names[i].note;
    if (i > 0) out += i + 1 == names.size() && last.empty() ? " or " : ", ";
    out += names[i].name;
    if (notes == Notes::kShown && !note.empty()) out += " (" + note + ")";
  }
  return last.empty() ? out : out + " or " + last;
}

// The type of the drafter's and the head's products.
enum class Compute { kFloat32, kBFloat16 };
inline constexpr ChoiceName<Compute> kComputeNames[] = {{Compute::kBFloat16, "bf16"}, {Compute::kFloat32, "fp32"}};
constexpr std::span<const ChoiceName<Compute>> names_of(Compute) { return kComputeNames; }

// The weights that the target's hidden states of training are computed with.
enum class FeatureWeights { kNative, kBFloat16 };
inline constexpr ChoiceName<FeatureWeights> kFeatureWeightsNames[] = {
    {FeatureWeights::kNative, "native"},
    {FeatureWeights::kBFloat16, "bf16", "a copy in the run's folder, often several times faster"}};
constexpr std::span<const ChoiceName<FeatureWeights>> names_of(FeatureWeights) { return kFeatureWeightsNames; }

}  // namespace draftsmith
