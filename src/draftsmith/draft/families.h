// The table of drafter families: which one a configuration names, and how it is made. A new family is a folder beside
// dflash/ and a line in families.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "draftsmith/draft/drafter.h"

namespace draftsmith {

struct Family {
  std::string_view name;          // as recipes write it: draft.family
  std::string_view architecture;  // as config.json writes it in "architectures"
  std::unique_ptr<Drafter> (*make)(const DrafterConfig& config, const Place& place, const ParamSource& source);
};

std::unique_ptr<Drafter> make_drafter(const DrafterConfig& config, const Place& place, const ParamSource& source);
// Parameters without memory (meta tensors): names, shapes and costs, before anything is loaded.
std::unique_ptr<Drafter> drafter_shapes(const DrafterConfig& config, const Place& place = {});
// Uninitialised fp32 parameters.
std::unique_ptr<Drafter> empty_drafter(const DrafterConfig& config, const Place& place);

}  // namespace draftsmith
