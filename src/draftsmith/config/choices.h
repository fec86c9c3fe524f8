// Holds the choices that only a configuration and the rooms above it know; base/choices.h has the others.
#pragma once

#include <optional>
#include <string>

#include "draftsmith/base/choices.h"

namespace draftsmith {

// The family of the drafter, which draft/families.cc makes.
enum class DrafterFamily { kDFlash };
inline constexpr ChoiceName<DrafterFamily> kFamilyNames[] = {{DrafterFamily::kDFlash, "dflash"}};
constexpr std::span<const ChoiceName<DrafterFamily>> names_of(DrafterFamily) { return kFamilyNames; }

// The weighting of a block's slots in the loss.
enum class LossKind { kDecay, kDpace };
inline constexpr ChoiceName<LossKind> kLossKindNames[] = {{LossKind::kDecay, "decay"}, {LossKind::kDpace, "dpace"}};
constexpr std::span<const ChoiceName<LossKind>> names_of(LossKind) { return kLossKindNames; }

// The source of a drafter's first weights: random numbers, the target's last layers, or a drafter's folder.
struct DraftInit {
  enum class Kind { kRandom, kTarget, kFolder };
  Kind kind = Kind::kRandom;
  std::string path = {};  // of kFolder

  static DraftInit from_folder(const std::string& path) { return {.kind = Kind::kFolder, .path = path}; }
  bool operator==(const DraftInit&) const = default;
};
// A text that is none of these names is the path of a folder.
inline constexpr ChoiceName<DraftInit::Kind> kDraftInitNames[] = {
    {DraftInit::Kind::kRandom, "random"}, {DraftInit::Kind::kTarget, "target", "the target's last layers"}};
constexpr std::span<const ChoiceName<DraftInit::Kind>> names_of(DraftInit::Kind) { return kDraftInitNames; }
inline constexpr const char* kDraftInitFolder = "the path of a drafter";

inline std::string name_of(const DraftInit& init) {
  return init.kind == DraftInit::Kind::kFolder ? init.path : name_of(init.kind);
}
// Returns nothing for an empty text.
inline std::optional<DraftInit> draft_init_from_text(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto kind = choice_from_text<DraftInit::Kind>(text);
  return kind ? DraftInit{.kind = *kind} : DraftInit::from_folder(text);
}

}  // namespace draftsmith
