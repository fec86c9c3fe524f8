// Reads and writes safetensors files. Reading maps the file and trusts nothing in it: every range, shape, type and name
// is checked before a byte of data is touched, and no number in the file decides how much memory is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "draftsmith/store/tensor_info.h"

namespace draftsmith {

class SafetensorsFile {
 public:
  // Throws a UserError that names the file (and the tensor), and says when the file is a git-lfs pointer or a web page.
  explicit SafetensorsFile(const std::filesystem::path& file);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;

  const std::filesystem::path& path() const;
  const std::map<std::string, TensorInfo>& tensors() const;
  const std::map<std::string, std::string>& metadata() const;
  bool has(const std::string& name) const;
  const TensorInfo& info(const std::string& name) const;            // throws a UserError for a missing tensor
  std::span<const std::byte> bytes(const std::string& name) const;  // may be misaligned: copy, do not cast
  // Returns a copy of the tensor's elements. Throws a UserError when the tensor is missing or not of type `expected`.
  template <class T>
  std::vector<T> copy(const std::string& name, DType expected) const {
    const std::span<const std::byte> raw = checked_bytes(name, expected, sizeof(T));
    std::vector<T> out(raw.size() / sizeof(T));
    copy_bytes(raw, out.data());
    return out;
  }

 private:
  std::span<const std::byte> checked_bytes(const std::string& name, DType expected, std::size_t element_size) const;
  static void copy_bytes(std::span<const std::byte> from, void* to);
  struct State;
  std::unique_ptr<State> state_;
};

// Describes a tensor to write. Its bytes stay the caller's until the file is written, so nothing is gathered in memory.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // row-major
};
// Writes `file` whole or not at all (whole_file.h), with the tensors in the order given. Throws a UserError that names
// it.
void write_safetensors(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata);

// Reads a model folder: model.safetensors, or the shards that model.safetensors.index.json names. The constructor
// throws a UserError when a shard is missing or lacks a tensor that the index gives it.
class SafetensorsFolder {
 public:
  explicit SafetensorsFolder(const std::filesystem::path& folder);
  const SafetensorsFile& file_of(const std::string& tensor) const;  // throws a UserError when no file has the tensor
  bool has(const std::string& tensor) const;
  std::vector<std::string> names() const;

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> file_of_;
};

}  // namespace draftsmith
