#include "flex/isa.h"

#include <cstdlib>
#include <string>

#include "flex/view.h"

namespace flex {

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
  }
  return "";
}

std::optional<Isa> isa_from_name(std::string_view name) {
  for (const Isa isa : kAllIsas)
    if (name == name_of(isa)) return isa;
  return std::nullopt;
}

bool is_supported(Isa isa) {
#if defined(__x86_64__)
  const auto has_avx2 = [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); };
  const auto has_avx512 = [&] {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  };
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return has_avx2();
    case Isa::kAvx512:
      return has_avx512();
    case Isa::kAvx512Bf16:
      return has_avx512() && __builtin_cpu_supports("avx512bf16");
  }
  return false;
#else
  return isa == Isa::kScalar;
#endif
}

Isa default_isa() {
  static const Isa chosen = [] {
    if (const char* name = std::getenv("FLEX_ISA"); name != nullptr && *name != '\0') {
      const std::optional<Isa> isa = isa_from_name(name);
      if (!isa)
        throw Error(std::string("[flex.isa] FLEX_ISA is ") + name + "; it must be scalar, avx2, avx512 or avx512_bf16");
      if (!is_supported(*isa))
        throw Error(std::string("[flex.isa] FLEX_ISA is ") + name +
                    ", which this machine lacks; choose another or unset it");
      return *isa;
    }
    Isa best = Isa::kScalar;
    for (const Isa isa : kAllIsas)
      if (is_supported(isa)) best = isa;
    return best;
  }();
  return chosen;
}

}  // namespace flex
