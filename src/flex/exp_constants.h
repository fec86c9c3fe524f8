// The numbers that every exp of the project uses, after Cephes' expf: with n the integer nearest to x / ln 2 and f = x
// - n ln 2,
//     exp(x) = 2^n (1 + f + f^2 (kTerm7 f^5 + kTerm6 f^4 + ... + kTerm2)).
#pragma once

namespace flex::exp_constants {

inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kLn2 = 0.69314718056f;
inline constexpr float kLn2High = 0.693359375f, kLn2Low = 2.12194440e-4f;  // ln 2 = high - low; n * high is exact
inline constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: added and taken away again, it leaves the nearest integer
inline constexpr float kLeast = -87.0f;       // below it 2^n is no normal number

// The factors of f^7 down to f^2.
inline constexpr float kTerm7 = 1.9875691500e-4f;
inline constexpr float kTerm6 = 1.3981999507e-3f;
inline constexpr float kTerm5 = 8.3334519073e-3f;
inline constexpr float kTerm4 = 4.1665795894e-2f;
inline constexpr float kTerm3 = 1.6666665459e-1f;
inline constexpr float kTerm2 = 5.0000001201e-1f;

}  // namespace flex::exp_constants
