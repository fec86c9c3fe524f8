#include "draftsmith/draft/families.h"

#include <ATen/ops/empty.h>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/dflash/dflash_drafter.h"

namespace draftsmith {
namespace {

using MakeDrafter = std::unique_ptr<Drafter> (*)(const DrafterConfig&, const Place&, const ParamSource&);

// In the order of DrafterFamily.
constexpr MakeDrafter kFamilies[] = {make_dflash};

}  // namespace

std::unique_ptr<Drafter> make_drafter(const DrafterConfig& config, const Place& place, const ParamSource& source) {
  return kFamilies[static_cast<std::size_t>(config.family)](config, place, source);
}

std::unique_ptr<Drafter> drafter_shapes(const DrafterConfig& config, const Place& place) {
  return make_drafter(config, place, [](const std::string&, const at::Tensor& shape, Role) { return shape; });
}

std::unique_ptr<Drafter> empty_drafter(const DrafterConfig& config, const Place& place) {
  return make_drafter(config, place, [&](const std::string&, const at::Tensor& shape, Role) {
    return at::empty(shape.sizes(), place.floats());
  });
}

}  // namespace draftsmith
