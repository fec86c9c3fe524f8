// This is the only file that sees llama.cpp's Jinja engine. The variables and repairs are those of llama.cpp's server
// for plain messages: a system turn goes into the next message if the template knows no system role, content becomes a
// list of parts if the template takes nothing else, and content is trimmed for the one family that needs it.
#include "draftsmith/text/chat_template.h"

#include <jinja/caps.h>
#include <jinja/lexer.h>
#include <jinja/parser.h>
#include <jinja/runtime.h>
#include <json.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <vector>

#include "draftsmith/base/check.h"
#include "draftsmith/store/sha256.h"

namespace draftsmith {
namespace {

constexpr std::size_t kMaxSource = std::size_t{1} << 20;
constexpr int kMaxNesting = 100;
constexpr int kMaxTag = 4096;

// The engine's report has several lines with the source drawn between them; this makes it one line.
std::string one_line(std::string_view report) {
  std::string line;
  for (char c : report) {
    if (c == '\n' || c == '\r') c = ' ';
    if (c == '-' && !line.empty() && line.back() == '-') continue;
    if (c == ' ' && (line.empty() || line.back() == ' ')) continue;
    line += c;
  }
  while (!line.empty() && (line.front() == '-' || line.front() == ' ')) line.erase(line.begin());
  return line;
}

// The engine parses and renders by recursion, so nesting and the length of an expression are bounded before it starts:
// brackets and blocks nest kMaxNesting deep at most, a tag holds kMaxTag characters outside its strings.
void check_source(const std::string& source) {
  require(!source.empty(), "the model has no chat template; give one with --template FILE");
  require(source.size() <= kMaxSource, "the chat template has ", source.size(), " bytes; at most ", kMaxSource,
          " are read");
  int line = 1, brackets = 0, blocks = 0, tag_size = 0;
  char quote = 0, tag = 0;  // tag: its second character, one of { % #
  for (std::size_t i = 0; i < source.size(); ++i) {
    const char c = source[i], next = i + 1 < source.size() ? source[i + 1] : '\0';
    line += c == '\n';
    if (tag == 0) {
      if (c != '{' || (next != '{' && next != '%' && next != '#')) continue;
      tag = next, tag_size = brackets = 0, ++i;
      if (tag != '%') continue;
      const std::size_t word = source.find_first_not_of("-+ \t\r\n", i + 1);
      if (word == std::string::npos) continue;
      const std::string_view name = std::string_view(source).substr(word, 6);
      if (name.starts_with("end")) --blocks;
      if (name.starts_with("if") || name.starts_with("for") || name.starts_with("macro") || name.starts_with("call"))
        ++blocks;
    } else if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (tag == '#') {
      if (c == '#' && next == '}') tag = 0, ++i;
    } else {
      ++tag_size;
      if (c == '"' || c == '\'') quote = c;
      if (brackets == 0 && next == '}' && (c == '}' || c == '%')) tag = 0, ++i;
      if (c == '(' || c == '[' || c == '{') ++brackets;
      if ((c == ')' || c == ']' || c == '}') && brackets > 0) --brackets;
    }
    require(brackets <= kMaxNesting && blocks <= kMaxNesting, "the chat template nests more than ", kMaxNesting,
            " levels deep at line ", line);
    require(tag_size <= kMaxTag, "the chat template has an expression of more than ", kMaxTag, " characters at line ",
            line);
  }
}

std::string trimmed(const std::string& text) {
  const char* space = " \t\n\r\v\f";
  const std::size_t begin = text.find_first_not_of(space);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

std::string formatted(const std::tm& time, const char* format) {
  char buffer[64];
  return std::string(buffer, std::strftime(buffer, sizeof(buffer), format, &time));
}

}  // namespace

struct ChatTemplate::State {
  std::string source;  // as given; the digest is taken of it
  std::string bos_text, eos_text;
  jinja::program program;
  jinja::caps caps;
  std::time_t now = 0;
  std::string datetime, date;
  bool trims_content = false;

  common_json content_of(const std::string& text) const {
    const std::string content = trims_content ? trimmed(text) : text;
    if (caps.supports_string_content || !caps.supports_typed_content) return common_json(content);
    return common_json::array({common_json{{"type", "text"}, {"text", content}}});
  }

  common_json messages_of(std::span<const ChatMessage> messages) const {
    std::vector<ChatMessage> list(messages.begin(), messages.end());
    if (!caps.supports_system_role && !list.empty() && list[0].role == "system") {
      if (list.size() > 1) list[1].content = list[0].content + "\n" + list[1].content;
      list.erase(list.begin());
    }
    common_json out = common_json::array();
    for (const ChatMessage& message : list)
      out.push_back(common_json{{"role", message.role}, {"content", content_of(message.content)}});
    return out;
  }

  std::string render(std::span<const ChatMessage> messages, GenerationPrompt generation_prompt) const {
    jinja::context context(source);
    context.current_time = now;
    common_json input{{"messages", messages_of(messages)}, {"bos_token", bos_text}, {"eos_token", eos_text},
                      {"enable_thinking", true},           {"datetime", datetime},  {"date_string", date}};
    if (generation_prompt == GenerationPrompt::kAdd) input["add_generation_prompt"] = true;
    jinja::global_from_json(context, input, false);
    jinja::runtime runtime(context);
    return jinja::runtime::gather_string_parts(runtime.execute(program))->as_string().str();
  }
};

ChatTemplate::ChatTemplate(std::string source, std::string bos_text, std::string eos_text)
    : state_(std::make_unique<State>()) {
  check_source(source);
  State& state = *state_;
  state.source = std::move(source);
  state.bos_text = std::move(bos_text);
  state.eos_text = std::move(eos_text);
  state.now = std::time(nullptr);
  std::tm local{};
  localtime_r(&state.now, &local);
  state.datetime = formatted(local, "%b %d %Y");
  state.date = formatted(local, "%d %b %Y");
  state.trims_content =
      state.source.find("You have access to the following functions in JSONSchema format") != std::string::npos;
  try {
    jinja::lexer lexer;
    state.program = jinja::parse_from_tokens(lexer.tokenize(state.source));
    state.caps = jinja::caps_get(state.program);
  } catch (const std::exception& error) {
    fail("the chat template cannot be parsed: ", one_line(error.what()));
  }
  const std::vector<ChatMessage> probe = {{"user", "a"}, {"assistant", "b"}};
  try {
    state.render(std::span(probe).first(1), GenerationPrompt::kAdd);
    state.render(probe, GenerationPrompt::kOmit);
  } catch (const std::exception& error) {
    fail("the chat template cannot be rendered: ", one_line(error.what()));
  }
}

ChatTemplate ChatTemplate::of(const Tokenizer& tokenizer, const std::string& source) {
  const auto text = [&](std::int32_t id) { return id < 0 ? std::string() : tokenizer.piece(id, true); };
  return {source.empty() ? tokenizer.chat_template() : source, text(tokenizer.bos()), text(tokenizer.eos())};
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(std::span<const ChatMessage> messages, GenerationPrompt generation_prompt) const {
  try {
    return state_->render(messages, generation_prompt);
  } catch (const std::exception& error) {
    fail("the chat template refuses the conversation: ", one_line(error.what()));
  }
}

const std::string& ChatTemplate::source() const { return state_->source; }

std::string ChatTemplate::digest() const {
  Sha256 sha;
  sha.add(state_->source);
  return sha.hex();
}

}  // namespace draftsmith
