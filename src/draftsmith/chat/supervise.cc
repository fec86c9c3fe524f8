#include "draftsmith/chat/supervise.h"

#include <algorithm>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

// Returns the position after the last byte that is not white space.
std::size_t end_without_space(const std::string& text) { return text.find_last_not_of(" \t\n\r\v\f") + 1; }

// Returns where each token ends in `text`, or nothing when the pieces do not spell the text (SentencePiece moves
// spaces).
std::vector<std::size_t> token_ends(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                    std::string_view text) {
  std::vector<std::size_t> ends;
  std::size_t at = 0;
  for (std::int32_t id : ids) {
    const std::string piece = tokenizer.piece(id, true);
    if (text.substr(at, piece.size()) != piece) return {};
    ends.push_back(at += piece.size());
  }
  return at == text.size() ? ends : std::vector<std::size_t>{};
}

}  // namespace

// A supervised stretch of the text, in bytes.
struct Supervisor::Turn {
  std::size_t begin = 0, end = 0;
};

namespace {

// Does the work of token_ends for one border, more slowly: the ids of the text before it must be the first ids of the
// whole. Returns how many ids lie wholly before the border, and whether it is a border of tokens.
std::pair<std::size_t, bool> ids_before(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                        const std::string& text, std::size_t border) {
  const std::vector<std::int32_t> head = tokenizer.encode(std::string_view(text).substr(0, border), true);
  const auto differs = std::mismatch(head.begin(), head.end(), ids.begin(), ids.end());
  return {static_cast<std::size_t>(differs.first - head.begin()), differs.first == head.end()};
}

}  // namespace

Supervisor::Supervisor(const Tokenizer& tokenizer, const ChatTemplate& chat_template)
    : tokenizer_(tokenizer), template_(chat_template) {}

std::vector<Supervisor::Turn> Supervisor::turns_in(const std::string& text, std::span<const ChatMessage> messages,
                                                   std::int64_t& left_out) const {
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != "assistant") continue;
    try {
      const std::string before = template_.render(messages.first(i), GenerationPrompt::kAdd);
      const std::string after = template_.render(messages.first(i + 1), GenerationPrompt::kOmit);
      const std::size_t end = end_without_space(after);
      if (after.starts_with(before) && text.starts_with(after) && end > before.size()) {
        turns.push_back({before.size(), end});
        continue;
      }
    } catch (const UserError&) {  // a template may refuse the part of a conversation that comes before an answer
    }
    ++left_out;
  }
  return turns;
}

SupervisedTokens Supervisor::tokenise(const std::string& text, std::span<const Turn> turns) const {
  SupervisedTokens out;
  out.num_turns = static_cast<std::int64_t>(turns.size());
  out.tokens = tokenizer_.encode(text, true);
  std::vector<std::size_t> ends = token_ends(tokenizer_, out.tokens, text);
  const bool exact = !ends.empty() || text.empty();
  if (exact) {
    // If a turn begins inside a token, the text is tokenised again in pieces that meet at the turn's border.
    std::vector<std::size_t> cuts = {0};
    for (const Turn& turn : turns) {
      if (turn.begin > 0 && !std::binary_search(ends.begin(), ends.end(), turn.begin)) cuts.push_back(turn.begin);
    }
    if (cuts.size() > 1) {
      out.tokens.clear();
      for (std::size_t c = 0; c < cuts.size(); ++c) {
        const std::size_t length = c + 1 < cuts.size() ? cuts[c + 1] - cuts[c] : std::string::npos;
        const auto piece = tokenizer_.encode(std::string_view(text).substr(cuts[c], length), true);
        out.tokens.insert(out.tokens.end(), piece.begin(), piece.end());
      }
      ends = token_ends(tokenizer_, out.tokens, text);
      require(!ends.empty(), "the tokenizer does not keep the border between a prompt and its answer");
    }
  }
  out.loss_mask.assign(out.tokens.size(), 0);
  for (const Turn& turn : turns) {
    std::size_t first = 0, last = 0;
    if (exact) {
      first = std::upper_bound(ends.begin(), ends.end(), turn.begin) - ends.begin();
      last = std::lower_bound(ends.begin(), ends.end(), turn.end) - ends.begin() + 1;
    } else {
      const auto [begin, begin_fits] = ids_before(tokenizer_, out.tokens, text, turn.begin);
      require(begin_fits, "the tokenizer joins the end of a prompt and the start of its answer in one token");
      const auto [end, end_fits] = ids_before(tokenizer_, out.tokens, text, turn.end);
      first = begin;
      last = end_fits ? end : end + 1;
    }
    std::fill(out.loss_mask.begin() + first, out.loss_mask.begin() + std::min(last, out.tokens.size()),
              std::uint8_t{1});
  }
  if (tokenizer_.adds_bos() && (out.tokens.empty() || out.tokens[0] != tokenizer_.bos())) {
    out.tokens.insert(out.tokens.begin(), tokenizer_.bos());
    out.loss_mask.insert(out.loss_mask.begin(), 0);
  }
  return out;
}

SupervisedTokens Supervisor::supervise(std::span<const ChatMessage> messages, LastAnswer last_answer) const {
  std::string text = template_.render(messages, GenerationPrompt::kOmit);
  std::int64_t left_out = 0;
  std::vector<Turn> turns;
  if (last_answer == LastAnswer::kCut && !messages.empty() && messages.back().role == "assistant") {
    const auto prompt = messages.first(messages.size() - 1);
    const std::string before = template_.render(prompt, GenerationPrompt::kAdd);
    const std::string cut = before + messages.back().content;
    require(text.starts_with(cut),
            "the chat template changes the text of answers, so an answer that was cut cannot be used");
    text = cut;
    turns = turns_in(text, prompt, left_out);
    if (cut.size() > before.size()) turns.push_back({before.size(), cut.size()});
  } else {
    turns = turns_in(text, messages, left_out);
  }
  require(!turns.empty(), "the chat template does not keep the borders of the answers");
  SupervisedTokens out = tokenise(text, turns);
  out.num_turns_left_out = left_out;
  return out;
}

SupervisedTokens Supervisor::prompt(std::span<const ChatMessage> messages) const {
  const std::string text = template_.render(messages, GenerationPrompt::kAdd);
  std::int64_t left_out = 0;
  const std::vector<Turn> turns = turns_in(text, messages, left_out);
  SupervisedTokens out = tokenise(text, turns);
  out.num_turns_left_out = left_out;
  return out;
}

std::vector<std::int32_t> Supervisor::after_answer(std::span<const ChatMessage> messages, std::size_t answer) const {
  DRAFTSMITH_ASSERT(answer < messages.size());
  const std::string text = template_.render(messages, GenerationPrompt::kAdd);
  const std::string answered = template_.render(messages.first(answer + 1), GenerationPrompt::kOmit);
  const Turn until{0, end_without_space(answered)};
  require(text.starts_with(std::string_view(answered).substr(0, until.end)),
          "the chat template does not keep the borders of the answers");
  const SupervisedTokens all = tokenise(text, {&until, 1});
  const auto last = std::find(all.loss_mask.rbegin(), all.loss_mask.rend(), std::uint8_t{1});
  return {all.tokens.begin() + (all.loss_mask.rend() - last), all.tokens.end()};
}

}  // namespace draftsmith
