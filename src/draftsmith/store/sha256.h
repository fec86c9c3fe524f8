// Computes SHA-256 as FIPS 180-4 defines it.
#pragma once

#include <string>
#include <string_view>

namespace draftsmith {

class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  std::string hex();  // 64 hexadecimal digits; ends the computation

 private:
  void block(const unsigned char* bytes);
  unsigned state_[8];
  unsigned long long size_ = 0;
  unsigned char buffer_[64];
};

}  // namespace draftsmith
