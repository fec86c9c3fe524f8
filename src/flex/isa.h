// Says which instruction sets this machine has, and which one a call uses.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace flex {

enum class Isa { kScalar, kAvx2, kAvx512, kAvx512Bf16 };
inline constexpr Isa kAllIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16};

std::string_view name_of(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

// Tells whether this machine can run it.
bool is_supported(Isa isa);
// Returns the best instruction set that this machine can run; the environment's FLEX_ISA (scalar, avx2, avx512,
// avx512_bf16) chooses another. Throws flex::Error for an unknown name, and for a set that this machine lacks.
Isa default_isa();

}  // namespace flex
