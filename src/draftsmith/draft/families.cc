#include "draftsmith/draft/families.h"

#include <ATen/ops/empty.h>

#include <iterator>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/dflash/config_keys.h"
#include "draftsmith/draft/dflash/dflash_drafter.h"

namespace draftsmith {
namespace {

struct Family {
  const char* architecture;
  std::unique_ptr<Drafter> (*make)(const DrafterConfig&, const Place&, const ParamSource&);
  void (*read_keys)(const JsonKeys& keys, const JsonKeys& inner, DrafterConfig&);
};

// In the order of DrafterFamily.
constexpr Family kFamilies[] = {{"DFlashDraftModel", make_dflash, read_dflash_keys}};

const Family& entry_of(DrafterFamily family) { return kFamilies[static_cast<std::size_t>(family)]; }

}  // namespace

std::unique_ptr<Drafter> make_drafter(const DrafterConfig& config, const Place& place, const ParamSource& source) {
  return entry_of(config.family).make(config, place, source);
}

std::unique_ptr<Drafter> drafter_shapes(const DrafterConfig& config, const Place& place) {
  return make_drafter(config, place, [](const std::string&, const at::Tensor& shape, Role) { return shape; });
}

std::unique_ptr<Drafter> empty_drafter(const DrafterConfig& config, const Place& place) {
  return make_drafter(config, place, [&](const std::string&, const at::Tensor& shape, Role) {
    return at::empty(shape.sizes(), place.floats());
  });
}

std::unique_ptr<Drafter> with_config(const Drafter& drafter, const DrafterConfig& config) {
  return make_drafter(config, drafter.place(), [&](const std::string& name, const at::Tensor& shape, Role) {
    at::Tensor tensor = param_of(drafter, name);
    DRAFTSMITH_ASSERT(tensor.sizes() == shape.sizes());
    return tensor;
  });
}

const char* architecture_of(DrafterFamily family) { return entry_of(family).architecture; }

std::optional<DrafterFamily> family_of_architecture(std::string_view architecture) {
  for (std::size_t i = 0; i < std::size(kFamilies); ++i)
    if (kFamilies[i].architecture == architecture) return static_cast<DrafterFamily>(i);
  return std::nullopt;
}

std::string known_architectures() {
  std::string out;
  for (const Family& family : kFamilies) out += (out.empty() ? "" : ", ") + std::string(family.architecture);
  return out;
}

void read_family_keys(const JsonKeys& keys, const JsonKeys& inner, DrafterConfig& config) {
  entry_of(config.family).read_keys(keys, inner, config);
}

}  // namespace draftsmith
