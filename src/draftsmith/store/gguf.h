// Reads the front of a GGUF file (keys and tensor descriptions) and checks every count and range. llama.cpp asserts on
// bad files, so each file passes through here before llama.cpp sees it; nothing here needs llama.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace draftsmith {

struct GgufTensor {
  std::string name;
  std::uint32_t type = 0;           // ggml type id
  std::string type_name;            // "F32", "Q4_1", "Q6_K" ...
  std::vector<std::int64_t> shape;  // ne[0] (row length) first
  std::uint64_t offset = 0;         // from the start of the file
  std::uint64_t num_bytes = 0;
};

// Scalar keys keep their value; arrays keep their elements (strings, integers, or floats).
using GgufValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>>;

struct GgufFile {
  std::filesystem::path path;
  std::uint32_t version = 0;
  std::map<std::string, GgufValue> keys;
  std::vector<GgufTensor> tensors;  // in file order

  const GgufTensor* find_tensor(const std::string& name) const;  // null when missing
  std::optional<std::int64_t> integer(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;  // float or integer keys
  std::optional<std::string> text(const std::string& key) const;
  std::string architecture() const;  // general.architecture, "" when missing
};

// Throws a UserError that names the file and the tensor or key. It refuses a wrong magic number, versions other than 2
// and 3, pieces of a split model, counts, lengths or ranges that do not fit the file, lists of lists, integers above
// int64's range, zero or more than 4 dimensions, empty or repeated names, unknown types, rows that are not whole
// blocks, a bad alignment, and tensors that overlap, leave gaps or lie past the end.
GgufFile read_gguf(const std::filesystem::path& file);

}  // namespace draftsmith
