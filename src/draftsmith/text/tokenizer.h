// Tokens and chat templates as llama.cpp has them in the target's GGUF: what will serve the drafter.
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
  // Loads only the vocabulary of a GGUF file (checked first, as every file is before llama.cpp sees it).
  static std::unique_ptr<Tokenizer> from_gguf(const std::filesystem::path& file);
  virtual ~Tokenizer() = default;

  virtual std::int64_t size() const = 0;  // number of tokens
  // parse_special: text of control tokens becomes those tokens. Never adds bos or eos by itself.
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

  // SHA-256, hexadecimal, over what the GGUF file says of the vocabulary. For every token in id order: id, type (1
  // where the file gives none) and length of its bytes as little-endian i32, then the bytes; then for every merge, in
  // order: length as little-endian i32, then its bytes.
  virtual std::string digest() const = 0;
  virtual std::string chat_template() const = 0;  // source text; "" = the model has none
  std::string template_digest() const;            // SHA-256 of chat_template(), hexadecimal
};

}  // namespace draftsmith
