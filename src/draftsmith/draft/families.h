// The table of drafter families, which makes the drafter that a configuration names. A new family is a folder beside
// dflash/, a name in config/choices.h and a line in families.cc.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "draftsmith/draft/drafter.h"
#include "draftsmith/store/json_keys.h"

namespace draftsmith {

std::unique_ptr<Drafter> make_drafter(const DrafterConfig& config, const Place& place, const ParamSource& source);
// Parameters without memory (meta tensors): names, shapes and costs, before anything is loaded.
std::unique_ptr<Drafter> drafter_shapes(const DrafterConfig& config, const Place& place = {});
// Uninitialised fp32 parameters.
std::unique_ptr<Drafter> empty_drafter(const DrafterConfig& config, const Place& place);
// The parameters of a drafter, which keep their memory, under another configuration with the same shapes.
std::unique_ptr<Drafter> with_config(const Drafter& drafter, const DrafterConfig& config);

// Returns the name of a family in config.json's "architectures".
const char* architecture_of(DrafterFamily family);
// Returns the family of that name, or none for the names of other models.
std::optional<DrafterFamily> family_of_architecture(std::string_view architecture);
// Lists all such names for messages.
std::string known_architectures();
// Reads the keys of config.json that only config.family has, and refuses those that it does not support. `inner` is
// dflash_config.
void read_family_keys(const JsonKeys& keys, const JsonKeys& inner, DrafterConfig& config);

}  // namespace draftsmith
