// The tokenizer of a GGUF file is llama.cpp's own, loaded without weights.
#include "draftsmith/text/tokenizer.h"

#include <llama.h>

#include <limits>
#include <unordered_set>

#include "draftsmith/base/check.h"
#include "draftsmith/store/gguf.h"
#include "draftsmith/store/sha256.h"
#include "draftsmith/text/llama_log.h"

namespace draftsmith {
namespace {

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kTypes = "tokenizer.ggml.token_type";
constexpr const char* kMerges = "tokenizer.ggml.merges";

template <class T>
const std::vector<T>* list_of(const GgufFile& gguf, const std::string& key) {
  const auto found = gguf.keys.find(key);
  if (found == gguf.keys.end()) return nullptr;
  const auto* list = std::get_if<std::vector<T>>(&found->second);
  require(list != nullptr, gguf.path.string(), ": key '", key, "' has an unexpected type");
  return list;
}

// Refuses a vocabulary that llama.cpp would assert on, or read past, while it loads it.
void check_vocabulary(const GgufFile& gguf) {
  const std::string file = gguf.path.string();
  const std::string model = gguf.text("tokenizer.ggml.model").value_or("");
  require(model == "gpt2" || model == "llama" || model == "gemma4", file, ": the tokenizer is of type '", model,
          "'; byte-level BPE (gpt2), llama and gemma4 are supported");
  const auto* tokens = list_of<std::string>(gguf, kTokens);
  require(tokens != nullptr && !tokens->empty(), file, ": key '", kTokens, "' is missing or empty");
  require(tokens->size() <= std::numeric_limits<std::int32_t>::max(), file, ": key '", kTokens, "' is too long");
  std::unordered_set<std::string> seen;
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    const std::string& text = (*tokens)[i];
    require(seen.insert(text.empty() ? text_of("[EMPTY_", i, "]") : text).second, file, ": token ", i, " '", text,
            "' appears twice in '", kTokens, "'");
  }
  const auto* types = list_of<std::int64_t>(gguf, kTypes);
  require(types == nullptr || types->size() == tokens->size(), file, ": '", kTypes, "' and '", kTokens,
          "' differ in length");
  list_of<std::string>(gguf, kMerges);
}

void add_i32(Sha256& sha, std::int64_t value) {
  const auto bits = static_cast<std::uint32_t>(value);
  char bytes[4];
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(bits >> (8 * i));
  sha.add({bytes, 4});
}

std::string vocabulary_digest(const GgufFile& gguf) {
  Sha256 sha;
  const auto* tokens = list_of<std::string>(gguf, kTokens);
  const auto* types = list_of<std::int64_t>(gguf, kTypes);
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    add_i32(sha, static_cast<std::int64_t>(i));
    add_i32(sha, types != nullptr ? (*types)[i] : 1);
    add_i32(sha, static_cast<std::int64_t>((*tokens)[i].size()));
    sha.add((*tokens)[i]);
  }
  if (const auto* merges = list_of<std::string>(gguf, kMerges)) {
    for (const std::string& merge : *merges) {
      add_i32(sha, static_cast<std::int64_t>(merge.size()));
      sha.add(merge);
    }
  }
  return sha.hex();
}

// llama.cpp has no call for this. Takes the file's key, or else the token that has the type "unknown".
std::int32_t unknown_token(const llama_vocab* vocab, const GgufFile& gguf) {
  const std::int32_t size = llama_vocab_n_tokens(vocab);
  const std::int64_t key = gguf.integer("tokenizer.ggml.unknown_token_id").value_or(-1);
  if (key >= 0 && key < size) return static_cast<std::int32_t>(key);
  for (std::int32_t id = 0; id < size; ++id) {
    if ((llama_vocab_get_attr(vocab, id) & LLAMA_TOKEN_ATTR_UNKNOWN) != 0) return id;
  }
  return -1;
}

class GgufTokenizer final : public Tokenizer {
 public:
  GgufTokenizer(llama_model* model, const GgufFile& gguf)
      : model_(model, llama_model_free),
        vocab_(llama_model_get_vocab(model)),
        unk_(unknown_token(vocab_, gguf)),
        digest_(vocabulary_digest(gguf)),
        chat_template_(gguf.text("tokenizer.chat_template").value_or("")) {}

  std::int64_t size() const override { return llama_vocab_n_tokens(vocab_); }

  std::vector<std::int32_t> encode(std::string_view text, bool parse_special) const override {
    if (text.empty()) return {};
    require(text.size() <= kMaxText, "a text of ", text.size(), " bytes is too long to be tokenised");
    const auto size = static_cast<std::int32_t>(text.size());
    std::vector<std::int32_t> ids(text.size() + 2);
    const int count = llama_tokenize(vocab_, text.data(), size, ids.data(), static_cast<std::int32_t>(ids.size()),
                                     false, parse_special);
    require(count >= 0, "llama.cpp could not tokenise a text of ", text.size(), " bytes");
    ids.resize(count);
    return ids;
  }

  std::string piece(std::int32_t id, bool show_special) const override {
    DRAFTSMITH_ASSERT(id >= 0 && id < size());
    std::string text(64, '\0');
    int count = llama_token_to_piece(vocab_, id, text.data(), static_cast<std::int32_t>(text.size()), 0, show_special);
    if (count < 0) {
      text.resize(-count);
      count = llama_token_to_piece(vocab_, id, text.data(), static_cast<std::int32_t>(text.size()), 0, show_special);
    }
    text.resize(count);
    return text;
  }

  std::string decode(std::span<const std::int32_t> ids, bool show_special) const override {
    if (ids.empty()) return {};
    for (std::int32_t id : ids) DRAFTSMITH_ASSERT(id >= 0 && id < size());
    const auto num_ids = static_cast<std::int32_t>(ids.size());
    std::string text(ids.size() * 8 + 16, '\0');
    int count = llama_detokenize(vocab_, ids.data(), num_ids, text.data(), static_cast<std::int32_t>(text.size()),
                                 false, show_special);
    if (count < 0) {
      text.resize(-count);
      count = llama_detokenize(vocab_, ids.data(), num_ids, text.data(), static_cast<std::int32_t>(text.size()), false,
                               show_special);
    }
    text.resize(count);
    return text;
  }

  bool is_control(std::int32_t id) const override { return llama_vocab_is_control(vocab_, id); }
  bool is_end(std::int32_t id) const override { return llama_vocab_is_eog(vocab_, id); }
  std::int32_t bos() const override { return llama_vocab_bos(vocab_); }
  std::int32_t eos() const override { return llama_vocab_eos(vocab_); }
  std::int32_t pad() const override { return llama_vocab_pad(vocab_); }
  std::int32_t unk() const override { return unk_; }
  std::int32_t mask() const override { return llama_vocab_mask(vocab_); }
  bool adds_bos() const override { return llama_vocab_get_add_bos(vocab_) && bos() >= 0; }
  std::string digest() const override { return digest_; }
  std::string chat_template() const override { return chat_template_; }

 private:
  static constexpr std::size_t kMaxText = std::size_t{1} << 28;
  std::unique_ptr<llama_model, decltype(&llama_model_free)> model_;
  const llama_vocab* vocab_;
  std::int32_t unk_;
  std::string digest_;
  std::string chat_template_;
};

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_gguf(const std::filesystem::path& file) {
  const GgufFile gguf = read_gguf(file);
  check_vocabulary(gguf);
  watch_llama_log();
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model* model = llama_model_load_from_file(file.string().c_str(), params);
  require(model != nullptr, file.string(), ": llama.cpp could not load the vocabulary: ", llama_error());
  return std::make_unique<GgufTokenizer>(model, gguf);
}

std::string Tokenizer::template_digest() const {
  Sha256 sha;
  sha.add(chat_template());
  return sha.hex();
}

}  // namespace draftsmith
