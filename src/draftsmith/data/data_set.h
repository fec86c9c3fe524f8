// The prepared data, which `draftsmith prepare` writes and training reads. A folder holds train.safetensors and
// eval.safetensors, each with
//   token_ids I32 [N], loss_mask U8 [N] (1 = supervised), document_offsets I64 [D+1] (first 0, last N), kind U8 [D]
//   (optional)
// and, in the metadata, the names of the kinds (JSON list), the tokenizer's digest and the chat template's digest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace draftsmith {

struct DataSet {
  std::vector<std::int32_t> token_ids;
  std::vector<std::uint8_t> loss_mask;
  std::vector<std::int64_t> document_offsets = {0};
  std::vector<std::uint8_t> kind;       // empty, or one for each document
  std::vector<std::string> kind_names;  // kind[d] indexes it
  std::string tokenizer_digest;         // hexadecimal SHA-256, which decides whether a target fits
  std::string template_digest;          // a difference only causes a notice

  std::int64_t num_documents() const { return static_cast<std::int64_t>(document_offsets.size()) - 1; }
  std::int32_t largest_id() const;  // -1 when there is no token
  std::int64_t num_tokens() const { return document_offsets.back(); }
  std::int64_t length(std::int64_t d) const { return document_offsets[d + 1] - document_offsets[d]; }
  std::span<const std::int32_t> tokens_of(std::int64_t d) const {
    return std::span(token_ids).subspan(document_offsets[d], length(d));
  }
  std::span<const std::uint8_t> loss_mask_of(std::int64_t d) const {
    return std::span(loss_mask).subspan(document_offsets[d], length(d));
  }
  // Returns the length of an evaluation's prompt, which is the tokens before the first supervised one.
  std::int64_t prompt_length(std::int64_t d) const;
  std::string kind_of(std::int64_t d) const;  // "" when the set has no kinds

  void add_document(std::span<const std::int32_t> tokens, std::span<const std::uint8_t> mask);
};

// ---- the files: data_set_io.cc --------------------------------------------------------------------------------------

// Reads one file. Throws a UserError that names a tensor when it is missing, has another type or contradicts the
// others.
DataSet read_data_set(const std::filesystem::path& file);

struct DataFolder {
  DataSet train, eval;
};
DataFolder read_data_folder(const std::filesystem::path& folder);
// Writes both files into a new folder, which appears whole or not at all. An existing folder is replaced only if it is
// such a folder.
void write_data_folder(const std::filesystem::path& folder, const DataFolder& data);
// Throws a UserError unless `folder` does not exist yet, is empty, or is a folder with train.safetensors.
void check_data_folder_target(const std::filesystem::path& folder);

}  // namespace draftsmith
