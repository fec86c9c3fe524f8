// Reads and writes data sets as safetensors files. Nothing in a file is trusted: the tensors must fit each other before
// training sees them.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "draftsmith/base/check.h"
#include "draftsmith/data/data_set.h"
#include "draftsmith/store/files.h"
#include "draftsmith/store/safetensors.h"

namespace draftsmith {
namespace {

constexpr const char* kTrainFile = "train.safetensors";
constexpr const char* kEvalFile = "eval.safetensors";
constexpr const char* kKindNames = "kind_names";
constexpr const char* kTokenizerDigest = "tokenizer_digest";
constexpr const char* kTemplateDigest = "template_digest";

std::string metadata_value(const SafetensorsFile& file, const char* key) {
  const auto found = file.metadata().find(key);
  require(found != file.metadata().end(), file.path().string(), ": the metadata has no '", key,
          "'; write the folder with `draftsmith prepare`");
  return found->second;
}

std::vector<std::string> read_kind_names(const SafetensorsFile& file) {
  const auto found = file.metadata().find(kKindNames);
  if (found == file.metadata().end()) return {};
  const nlohmann::json names = nlohmann::json::parse(found->second, nullptr, false);
  bool good = names.is_array() && names.size() <= 256;
  if (good) good = std::all_of(names.begin(), names.end(), [](const auto& name) { return name.is_string(); });
  require(good, file.path().string(), ": metadata '", kKindNames, "' is not a JSON list of at most 256 names");
  return names.get<std::vector<std::string>>();
}

template <class T>
std::vector<T> read_row(const SafetensorsFile& file, const std::string& name, DType dtype) {
  require(file.info(name).shape.size() == 1, file.path().string(), ": tensor '", name,
          "' must have one dimension, but it has ", file.info(name).shape.size());
  return file.copy<T>(name, dtype);
}

void check_offsets(const std::string& path, const std::vector<std::int64_t>& offsets, std::size_t num_tokens) {
  require(!offsets.empty() && offsets.front() == 0, path, ": document_offsets must start with 0");
  for (std::size_t d = 1; d < offsets.size(); ++d) {
    require(offsets[d] >= offsets[d - 1], path, ": document_offsets falls from ", offsets[d - 1], " to ", offsets[d],
            " at entry ", d);
  }
  require(offsets.back() == static_cast<std::int64_t>(num_tokens), path, ": document_offsets ends with ",
          offsets.back(), ", but token_ids has ", num_tokens, " tokens");
}

void check_data_set(const std::string& path, const DataSet& data) {
  require(data.loss_mask.size() == data.token_ids.size(), path, ": loss_mask has ", data.loss_mask.size(),
          " entries, but token_ids has ", data.token_ids.size());
  check_offsets(path, data.document_offsets, data.token_ids.size());
  for (std::size_t i = 0; i < data.token_ids.size(); ++i) {
    require(data.token_ids[i] >= 0, path, ": token_ids holds ", data.token_ids[i], " at position ", i);
    require(data.loss_mask[i] <= 1, path, ": loss_mask holds ", int{data.loss_mask[i]}, " at position ", i,
            "; only 0 and 1 are known");
  }
  if (data.kind.empty()) return;
  require(data.kind.size() == static_cast<std::size_t>(data.num_documents()), path, ": kind has ", data.kind.size(),
          " entries for ", data.num_documents(), " documents");
  for (std::size_t d = 0; d < data.kind.size(); ++d) {
    require(data.kind[d] < data.kind_names.size(), path, ": kind of document ", d, " is ", int{data.kind[d]},
            ", but the metadata names ", data.kind_names.size());
  }
}

template <class T>
TensorToWrite row_to_write(const char* name, DType dtype, const std::vector<T>& values) {
  return {name, dtype, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values))};
}

void write_data_set(const std::filesystem::path& file, const DataSet& data) {
  std::vector<TensorToWrite> tensors = {row_to_write("document_offsets", DType::kI64, data.document_offsets),
                                        row_to_write("token_ids", DType::kI32, data.token_ids),
                                        row_to_write("loss_mask", DType::kU8, data.loss_mask)};
  std::map<std::string, std::string> metadata = {{kTokenizerDigest, data.tokenizer_digest},
                                                 {kTemplateDigest, data.template_digest}};
  if (!data.kind.empty()) tensors.push_back(row_to_write("kind", DType::kU8, data.kind));
  if (!data.kind_names.empty()) metadata[kKindNames] = nlohmann::json(data.kind_names).dump();
  write_safetensors(file, tensors, metadata);
}

}  // namespace

DataSet read_data_set(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  DataSet data;
  data.tokenizer_digest = metadata_value(file, kTokenizerDigest);
  data.template_digest = metadata_value(file, kTemplateDigest);
  data.kind_names = read_kind_names(file);
  data.token_ids = read_row<std::int32_t>(file, "token_ids", DType::kI32);
  data.loss_mask = read_row<std::uint8_t>(file, "loss_mask", DType::kU8);
  data.document_offsets = read_row<std::int64_t>(file, "document_offsets", DType::kI64);
  if (file.has("kind")) data.kind = read_row<std::uint8_t>(file, "kind", DType::kU8);
  check_data_set(path.string(), data);
  return data;
}

DataFolder read_data_folder(const std::filesystem::path& folder) {
  require(std::filesystem::is_directory(folder), folder.string(), " is not a folder; `draftsmith prepare` writes one");
  DataFolder data{read_data_set(folder / kTrainFile), read_data_set(folder / kEvalFile)};
  require(data.train.tokenizer_digest == data.eval.tokenizer_digest, folder.string(), ": ", kTrainFile, " and ",
          kEvalFile, " were prepared with different tokenizers");
  return data;
}

void check_data_folder_target(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(folder, error))) return;
  const bool is_folder = std::filesystem::is_directory(folder, error);
  require(
      is_folder && (std::filesystem::is_empty(folder, error) || std::filesystem::exists(folder / kTrainFile, error)),
      folder.string(), " exists and is not a folder of prepared data; it is not replaced, so choose another name");
}

void write_data_folder(const std::filesystem::path& folder, const DataFolder& data) {
  check_data_folder_target(folder);
  write_folder(folder, [&](const std::filesystem::path& temporary) {
    write_data_set(temporary / kTrainFile, data.train);
    write_data_set(temporary / kEvalFile, data.eval);
  });
}

}  // namespace draftsmith
