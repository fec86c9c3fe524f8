#include "draftsmith/chat/conversations.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxLine = std::size_t{256} << 20;
constexpr std::size_t kMaxText = std::size_t{1} << 20;

// A line that cannot be used; the text is the reason.
struct Skip {
  const char* reason;
};

// Reads a physical line without its newline and drops text beyond kMaxLine. Returns false at the end.
bool read_line(std::istream& stream, std::string& line, bool& too_long) {
  line.clear();
  too_long = false;
  std::streambuf* buffer = stream.rdbuf();
  bool any = false;
  for (int c = buffer->sbumpc(); c != std::char_traits<char>::eof(); c = buffer->sbumpc()) {
    any = true;
    if (c == '\n') return true;
    if (line.size() < kMaxLine) {
      line += static_cast<char>(c);
    } else {
      too_long = true;
    }
  }
  return any;
}

bool present(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

bool holds_something(const Json& object, const char* key) { return present(object, key) && !object.at(key).empty(); }

std::string role_of(const Json& message, const char* key) {
  if (!message.is_object() || !present(message, key) || !message.at(key).is_string())
    throw Skip{"a message without a role"};
  const std::string role = message.at(key).get<std::string>();
  if (role == "user" || role == "human") return "user";
  if (role == "assistant" || role == "gpt") return "assistant";
  if (role == "system" || role == "developer") return "system";
  if (role == "tool" || role == "function" || role == "function_call" || role == "observation" || role == "ipython") {
    throw Skip{"tools are not supported"};
  }
  throw Skip{"an unknown role"};
}

std::string text_of_content(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw Skip{"content that is not text"};
  std::string text;
  for (const Json& part : content) {
    if (part.is_string()) {
      text += part.get<std::string>();
      continue;
    }
    const bool is_text = part.is_object() && part.value("type", Json("text")) == "text" && part.contains("text") &&
                         part.at("text").is_string();
    if (!is_text) throw Skip{"an image or another part that is not text"};
    text += part.at("text").get<std::string>();
  }
  return text;
}

ChatMessage read_message(const Json& message, const char* role_key, const char* content_key) {
  ChatMessage out{role_of(message, role_key), ""};
  if (holds_something(message, "tool_calls") || holds_something(message, "function_call"))
    throw Skip{"tools are not supported"};
  if (present(message, "reasoning_content")) {
    const Json& reasoning = message.at("reasoning_content");
    if (!reasoning.is_string() ||
        reasoning.get_ref<const std::string&>().find_first_not_of(" \t\r\n") != std::string::npos) {
      throw Skip{"reasoning_content is not supported"};
    }
  }
  if (!present(message, content_key)) throw Skip{"a message without content"};
  out.content = text_of_content(message.at(content_key));
  if (out.content.empty() && out.role == "assistant") throw Skip{"an empty answer"};
  return out;
}

std::vector<ChatMessage> read_messages(const Json& object) {
  if (holds_something(object, "tools") || holds_something(object, "functions")) throw Skip{"tools are not supported"};
  const bool share_gpt = !present(object, "messages") && present(object, "conversations");
  const char* key = share_gpt ? "conversations" : "messages";
  if (!present(object, key)) {
    if (!present(object, "prompt")) throw Skip{"no messages"};
    return {{"user", text_of_content(object.at("prompt"))}};
  }
  const Json& list = object.at(key);
  if (!list.is_array()) throw Skip{"messages that are not a list"};
  if (list.empty()) throw Skip{"no messages"};
  std::vector<ChatMessage> messages;
  for (const Json& message : list) {
    messages.push_back(share_gpt ? read_message(message, "from", "value") : read_message(message, "role", "content"));
  }
  return messages;
}

std::string short_text(const Json& object, const char* key) {
  if (!present(object, key)) return "";
  const Json& value = object.at(key);
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.dump();
  throw Skip{"an id or kind that is not text"};
}

Conversation read_conversation(const std::string& line) {
  const Json object = Json::parse(line, nullptr, false);
  if (object.is_discarded()) throw Skip{"bad JSON"};
  if (!object.is_object()) throw Skip{"JSON that is not an object"};
  Conversation conversation;
  conversation.messages = read_messages(object);
  conversation.id = short_text(object, "id");
  conversation.kind = short_text(object, "kind");
  conversation.cut = present(object, "cut") && object.at("cut") == true;
  std::size_t size = 0;
  bool asked = false;
  for (const ChatMessage& message : conversation.messages) {
    size += message.content.size();
    asked = asked || message.role != "system";
  }
  if (!asked) throw Skip{"only system messages"};
  if (size > kMaxText) throw Skip{"more than 1 MiB of text"};
  if (conversation.messages.back().role == "system") throw Skip{"a system message at the end"};
  return conversation;
}

}  // namespace

bool ConversationReader::next(ConversationLine& next_line) {
  std::string line;
  bool too_long = false;
  while (read_line(stream_, line, too_long)) {
    ++line_;
    if (line_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    if (line.find_first_not_of(" \t\r\v\f") == std::string::npos) continue;
    next_line = {};
    next_line.number = line_;
    try {
      if (too_long) throw Skip{"a line of more than 256 MiB"};
      next_line.conversation = read_conversation(line);
    } catch (const Skip& skip) {
      next_line.skip_reason = skip.reason;
    }
    return true;
  }
  return false;
}

std::string conversation_to_json(const Conversation& conversation) {
  nlohmann::ordered_json object;
  if (!conversation.id.empty()) object["id"] = conversation.id;
  if (!conversation.kind.empty()) object["kind"] = conversation.kind;
  object["messages"] = nlohmann::ordered_json::array();
  for (const ChatMessage& message : conversation.messages) {
    nlohmann::ordered_json item;
    item["role"] = message.role;
    item["content"] = message.content;
    object["messages"].push_back(std::move(item));
  }
  if (conversation.cut) object["cut"] = true;
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace draftsmith
