// A wrong mask token trains a drafter that no server can use, so each rule checks.
#include "draftsmith/text/mask_token.h"

#include <set>

#include "draftsmith/base/check.h"
#include "draftsmith/text/chat_template.h"

namespace draftsmith {
namespace {

std::string quoted(const Tokenizer& tokenizer, std::int32_t id) {
  return text_of(id, " '", tokenizer.piece(id, true), "'");
}

MaskTokenChoice checked(const Tokenizer& tokenizer, std::int64_t id, std::int64_t num_rows, const std::string& whose) {
  require(id >= 0 && id < num_rows, whose, " is ", id, "; it must lie in 0 .. ", num_rows - 1,
          ", the rows of the target's embedding");
  const auto token = static_cast<std::int32_t>(id);
  if (id < tokenizer.size()) {
    require(!tokenizer.is_end(token), whose, " is ", quoted(tokenizer, token),
            ", which ends the model's answers; choose another id");
    require(token != tokenizer.pad(), whose, " is ", quoted(tokenizer, token),
            ", the padding token; choose another id");
  }
  return {token, ""};
}

// Returns the ids that the chat template prints in small conversations. A search of its source alone would miss those
// whose text it puts together.
std::set<std::int32_t> printed_ids(const Tokenizer& tokenizer) {
  std::set<std::int32_t> ids;
  if (tokenizer.chat_template().empty()) return ids;
  const std::vector<std::vector<ChatMessage>> probes = {
      {{"user", "a"}},
      {{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}},
      {{"system", "s"}, {"user", "a"}, {"assistant", "b"}}};
  try {
    const ChatTemplate chat_template = ChatTemplate::of(tokenizer);
    for (const auto& messages : probes) {
      for (GenerationPrompt prompt : {GenerationPrompt::kOmit, GenerationPrompt::kAdd}) {
        try {
          const auto tokens = tokenizer.encode(chat_template.render(messages, prompt), true);
          ids.insert(tokens.begin(), tokens.end());
        } catch (const UserError&) {  // a template may refuse a probe; what the others print still counts
        }
      }
    }
  } catch (const UserError&) {  // a template that does not work prints nothing; its text is searched all the same
  }
  return ids;
}

}  // namespace

MaskTokenChoice choose_mask_token(const Tokenizer& tokenizer, std::int64_t configured,
                                  std::int64_t num_embedding_rows) {
  if (configured != -1) return checked(tokenizer, configured, num_embedding_rows, "draft.mask_token_id");
  if (tokenizer.mask() >= 0)
    return checked(tokenizer, tokenizer.mask(), num_embedding_rows, "the tokenizer's mask token");
  if (num_embedding_rows > tokenizer.size()) {
    const auto id = static_cast<std::int32_t>(tokenizer.size());
    return {id, text_of("mask token: id ", id, ", the first row of the embedding that no token uses")};
  }
  const std::set<std::int32_t> printed = printed_ids(tokenizer);
  const std::string chat_template = tokenizer.chat_template();
  const std::set<std::int32_t> special = {tokenizer.bos(), tokenizer.eos(), tokenizer.pad(), tokenizer.unk()};
  for (auto id = static_cast<std::int32_t>(num_embedding_rows - 1); id >= 0; --id) {
    if (!tokenizer.is_control(id) || tokenizer.is_end(id) || special.contains(id) || printed.contains(id)) continue;
    if (chat_template.find(tokenizer.piece(id, true)) != std::string::npos) continue;
    return {id, text_of("mask token: id ", quoted(tokenizer, id),
                        ", the highest control token that the chat template never prints")};
  }
  fail("the tokenizer has no token that can serve as the mask token; give one as draft.mask_token_id");
}

}  // namespace draftsmith
