// Gives tokens and chat templates as llama.cpp reads them from the target's GGUF, since the drafter is served with
// them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace draftsmith {

class Tokenizer {
 public:
  // Loads only the vocabulary of a GGUF file, which is checked before llama.cpp sees it. Throws a UserError that names
  // it.
  static std::unique_ptr<Tokenizer> from_gguf(const std::filesystem::path& file);
  virtual ~Tokenizer() = default;

  virtual std::int64_t size() const = 0;  // number of tokens
  // With parse_special, the text of a control token becomes that token. Never adds bos or eos by itself.
  virtual std::vector<std::int32_t> encode(std::string_view text, bool parse_special) const = 0;
  virtual std::string piece(std::int32_t id, bool show_special) const = 0;
  virtual std::string decode(std::span<const std::int32_t> ids, bool show_special) const = 0;

  virtual bool is_control(std::int32_t id) const = 0;
  virtual bool is_end(std::int32_t id) const = 0;  // end of generation
  virtual std::int32_t bos() const = 0;            // -1 = none, likewise below
  virtual std::int32_t eos() const = 0;
  virtual std::int32_t pad() const = 0;
  virtual std::int32_t unk() const = 0;
  virtual std::int32_t mask() const = 0;
  virtual bool adds_bos() const = 0;  // llama.cpp's server puts bos before every prompt

  // Returns the SHA-256 (hexadecimal) of what the GGUF file says about the vocabulary: for every token in id order its
  // id, its type (1 if the file gives none) and the length of its bytes as little-endian i32, then the bytes; then for
  // every merge, in order, its length as little-endian i32 and its bytes.
  virtual std::string digest() const = 0;
  virtual std::string chat_template() const = 0;  // source text; "" = the model has none
  std::string template_digest() const;            // SHA-256 of chat_template(), hexadecimal
};

}  // namespace draftsmith
