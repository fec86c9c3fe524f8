// A view of a tensor that someone else owns is a pointer, sizes and strides. Nothing here allocates.
// B batch, H heads, N rows (queries or keys), D width of a head.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace flex {

// An error that the caller made, in the caller's terms.
class Error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

namespace detail {
[[noreturn]] inline void refuse(const char* where, const std::string& text) {
  throw Error(std::string("[flex.") + where + "] " + text);
}
}  // namespace detail

// The upper half of a float.
struct BFloat16 {
  std::uint16_t bits = 0;
};
static_assert(sizeof(BFloat16) == 2);

// [B, H, N, D]; strides in elements. D is dense (stride 1); the others are free, 0 repeats a row.
template <class T>
struct View {
  T* data = nullptr;
  std::array<std::int64_t, 4> size = {0, 0, 0, 0};
  std::array<std::int64_t, 4> stride = {0, 0, 0, 1};

  T* row(std::int64_t b, std::int64_t h, std::int64_t n) const {
    return data + b * stride[0] + h * stride[1] + n * stride[2];
  }
  operator View<const T>() const requires(!std::is_const_v<T>) { return {data, size, stride}; }
};

// Returns the view of a tensor without gaps.
template <class T>
View<T> dense_view(T* data, std::array<std::int64_t, 4> size) {
  return {data, size, {size[1] * size[2] * size[3], size[2] * size[3], size[3], 1}};
}

}  // namespace flex
