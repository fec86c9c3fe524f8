// The table of drafter families, which makes the drafter that a configuration names. A new family is a folder beside
// dflash/, a name in config/choices.h and a line in families.cc.
#pragma once

#include <memory>

#include "draftsmith/draft/drafter.h"

namespace draftsmith {

std::unique_ptr<Drafter> make_drafter(const DrafterConfig& config, const Place& place, const ParamSource& source);
// Parameters without memory (meta tensors): names, shapes and costs, before anything is loaded.
std::unique_ptr<Drafter> drafter_shapes(const DrafterConfig& config, const Place& place = {});
// Uninitialised fp32 parameters.
std::unique_ptr<Drafter> empty_drafter(const DrafterConfig& config, const Place& place);

}  // namespace draftsmith
