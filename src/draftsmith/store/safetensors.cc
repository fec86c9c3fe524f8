#include "draftsmith/store/safetensors.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "draftsmith/base/check.h"
#include "draftsmith/base/strings.h"
#include "draftsmith/store/files.h"
#include "draftsmith/store/mapped_file.h"
#include "draftsmith/store/safetensors_header.h"

namespace draftsmith {
namespace fs = std::filesystem;

struct SafetensorsFile::State {
  explicit State(const fs::path& file)
      : path(file), mapped(file), header(read_safetensors_header(file.string(), mapped.bytes())) {}
  fs::path path;
  MappedFile mapped;
  SafetensorsHeader header;
};

SafetensorsFile::SafetensorsFile(const fs::path& file) : state_(std::make_unique<State>(file)) {}
SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;

const fs::path& SafetensorsFile::path() const { return state_->path; }
const std::map<std::string, TensorInfo>& SafetensorsFile::tensors() const { return state_->header.tensors; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const { return state_->header.metadata; }
bool SafetensorsFile::has(const std::string& name) const { return tensors().contains(name); }

const TensorInfo& SafetensorsFile::info(const std::string& name) const {
  const auto found = tensors().find(name);
  require(found != tensors().end(), path().string(), " has no tensor ", shown(name));
  return found->second;
}

std::span<const std::byte> SafetensorsFile::bytes(const std::string& name) const {
  const TensorInfo& tensor = info(name);
  return state_->mapped.bytes().subspan(state_->header.data_begin + tensor.begin, tensor.end - tensor.begin);
}

std::span<const std::byte> SafetensorsFile::checked_bytes(const std::string& name, DType expected,
                                                          std::size_t element_size) const {
  DRAFTSMITH_ASSERT(element_size == size_of(expected));
  const TensorInfo& tensor = info(name);
  require(tensor.dtype == expected, path().string(), ": tensor ", shown(name), " has type ", name_of(tensor.dtype),
          ", but it must be ", name_of(expected));
  return bytes(name);
}

void SafetensorsFile::copy_bytes(std::span<const std::byte> from, void* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

namespace {

// Maps each tensor to the name of its shard, as model.safetensors.index.json says.
std::map<std::string, std::string> read_index(const fs::path& file) {
  const nlohmann::json index = nlohmann::json::parse(read_text_file(file, kLongestHeader), nullptr, false);
  require(!index.is_discarded(), file.string(), " is not valid JSON");
  require(index.is_object() && index.contains("weight_map") && index["weight_map"].is_object(), file.string(),
          " has no object 'weight_map', which names the file of each tensor");
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    require(shard.is_string(), file.string(), ": 'weight_map' gives no file name for tensor ", shown(tensor));
    const std::string name = shard.get<std::string>();
    require(!name.empty() && name != "." && name != ".." &&
                name.find_first_of(std::string_view("/\0", 2)) == std::string::npos,
            file.string(), ": ", shown(name), " of tensor ", shown(tensor), " is not a plain name of a file beside it");
    shard_of[tensor] = name;
  }
  return shard_of;
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(const fs::path& folder) {
  const fs::path single = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  std::error_code ignored;
  if (fs::exists(single, ignored)) {
    files_.emplace_back(single);
    for (const auto& [name, info] : files_[0].tensors()) file_of_[name] = 0;
    return;
  }
  require(fs::exists(index, ignored), folder.string(),
          " holds neither model.safetensors nor model.safetensors.index.json");
  std::map<std::string, std::size_t> opened;
  for (const auto& [tensor, shard] : read_index(index)) {
    const auto [place, is_new] = opened.emplace(shard, files_.size());
    if (is_new) {
      require(fs::exists(folder / shard, ignored), (folder / shard).string(), " is missing; ",
              index.filename().string(), " says it holds tensor ", shown(tensor));
      files_.emplace_back(folder / shard);
    }
    require(files_[place->second].has(tensor), (folder / shard).string(), " has no tensor ", shown(tensor), ", but ",
            index.filename().string(), " says that it has");
    file_of_[tensor] = place->second;
  }
}

const SafetensorsFile& SafetensorsFolder::file_of(const std::string& tensor) const {
  const auto found = file_of_.find(tensor);
  require(found != file_of_.end(), "no file of ",
          files_.empty() ? "the model" : files_[0].path().parent_path().string(), " has the tensor ", shown(tensor));
  return files_[found->second];
}

bool SafetensorsFolder::has(const std::string& tensor) const { return file_of_.contains(tensor); }

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> out;
  for (const auto& [name, file] : file_of_) out.push_back(name);
  return out;
}

}  // namespace draftsmith
