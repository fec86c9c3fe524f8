#pragma once

namespace draftsmith {
inline constexpr const char* kVersion = "0.1.0";
}
