// Every line of JSON is read or skipped for a reason; none is lost and none splits.
#include "draftsmith/chat/conversations.h"

#include <gtest/gtest.h>

#include <sstream>

namespace draftsmith {
namespace {

std::vector<ConversationLine> lines_of(const std::string& text) {
  std::istringstream stream(text);
  ConversationReader reader(stream);
  std::vector<ConversationLine> lines;
  for (ConversationLine line; reader.next(line);) lines.push_back(line);
  return lines;
}

std::string reason_of(const std::string& line) {
  const auto lines = lines_of(line);
  return lines.size() == 1 ? lines[0].skip_reason : "not one line";
}

std::vector<ChatMessage> messages_of(const std::string& line) {
  const auto lines = lines_of(line);
  EXPECT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].skip_reason, "") << line;
  return lines[0].conversation.messages;
}

const std::string kLine = R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}]})";
const std::vector<ChatMessage> kHiYo = {{"user", "hi"}, {"assistant", "yo"}};

TEST(Conversations, SpellingsOfOneConversation) {
  EXPECT_EQ(messages_of(kLine), kHiYo);
  EXPECT_EQ(messages_of(R"({"conversations":[{"from":"human","value":"hi"},{"from":"gpt","value":"yo"}]})"), kHiYo);
  EXPECT_EQ(
      messages_of(R"({"messages":[{"role":"user","content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]},)"
                  R"({"role":"assistant","content":[{"type":"text","text":"yo"}]}]})"),
      kHiYo);
  for (const char* reasoning : {"null", "\"\\n\\n\"", "\"\""}) {
    EXPECT_EQ(
        messages_of(
            R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yo","reasoning_content":)" +
            std::string(reasoning) + "}]}"),
        kHiYo);
  }
  EXPECT_EQ(messages_of(R"({"prompt":"hi"})"), (std::vector<ChatMessage>{{"user", "hi"}}));
}

TEST(Conversations, LinesThatCannotBeUsedSayWhy) {
  const auto line_of = [](const std::string& messages) { return "{\"messages\":[" + messages + "]}"; };
  const std::string user = R"({"role":"user","content":"hi"})";
  EXPECT_EQ(reason_of("{\"messages\":[]}"), "no messages");
  EXPECT_EQ(reason_of("{}"), "no messages");
  EXPECT_EQ(reason_of("[]"), "JSON that is not an object");
  EXPECT_EQ(reason_of("{\"messages\":3}"), "messages that are not a list");
  EXPECT_EQ(reason_of("{\"messages\":[3]}"), "a message without a role");
  EXPECT_EQ(reason_of(line_of(R"({"role":"system","content":"s"})")), "only system messages");
  EXPECT_EQ(reason_of(line_of(user + R"(,{"role":"assistant","content":""})")), "an empty answer");
  EXPECT_EQ(reason_of(line_of(user + R"(,{"role":"assistant","content":null})")), "a message without content");
  EXPECT_EQ(reason_of(line_of(user + R"(,{"role":"assistant","content":7})")), "content that is not text");
  EXPECT_EQ(
      reason_of(line_of(
          user + R"(,{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","content":"42"})")),
      "tools are not supported");
  EXPECT_EQ(reason_of(line_of(user + R"(,{"role":"tool","content":"42"})")), "tools are not supported");
  EXPECT_EQ(reason_of("{\"tools\":[{}],\"messages\":[" + user + "]}"), "tools are not supported");
  EXPECT_EQ(reason_of(line_of(R"({"role":"user","content":[{"type":"image_url","image_url":"x"}]})")),
            "an image or another part that is not text");
  EXPECT_EQ(reason_of(line_of(user + R"(,{"role":"critic","content":"bad"})")), "an unknown role");
  EXPECT_EQ(reason_of(line_of(user + R"(,{"role":"assistant","content":"yo","reasoning_content":"hm"})")),
            "reasoning_content is not supported");
  EXPECT_EQ(reason_of("{\"kind\":[],\"messages\":[" + user + "]}"), "an id or kind that is not text");
  EXPECT_EQ(reason_of(line_of(R"({"role":"user","content":")" + std::string(1100000, 'x') + "\"}")),
            "more than 1 MiB of text");
}

TEST(Conversations, EveryLineButABlankOneIsReadAndNumbered) {
  const std::string separators =
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\xE2\x80\xA8\xC2\x85z\"},{\"role\":\"assistant\",\"content\":"
      "\"yo\"}]}";
  const std::string wide = "{\"unused\":\"" + std::string(3 << 20, 'u') + "\"," + kLine.substr(1);
  const auto lines = lines_of("\xEF\xBB\xBF" + kLine + "\n" + kLine + "\r\n" + separators + "\n\n   \n" + wide + "\n" +
                              kLine + "\n" + kLine.substr(0, 40) + "\n" + kLine);
  ASSERT_EQ(lines.size(), 7u);
  const std::int64_t numbers[] = {1, 2, 3, 6, 7, 8, 9};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].number, numbers[i]);
    EXPECT_EQ(lines[i].skip_reason, i == 5 ? "bad JSON" : "");
    if (i != 5 && i != 2) {
      EXPECT_EQ(lines[i].conversation.messages, kHiYo);
    }
  }
  EXPECT_EQ(lines[2].conversation.messages[0].content, "a\xE2\x80\xA8\xC2\x85z");
}

// Text that is not UTF-8 never becomes tokens: such a line is bad JSON.
TEST(Conversations, SurrogatesAndBrokenBytes) {
  const auto with = [](const std::string& content) {
    return "{\"messages\":[{\"role\":\"user\",\"content\":\"" + content + "\"}]}";
  };
  EXPECT_EQ(messages_of(with("\\ud83e\\udd99"))[0].content, "\xF0\x9F\xA6\x99");
  EXPECT_EQ(messages_of(with("a\\u0000b"))[0].content, std::string("a\0b", 3));
  for (const char* bad : {"a\\ud83d b", "\\udc00", "\xF0\x9F", "\xED\xA0\xBD", "\xC0\xAF"})
    EXPECT_EQ(reason_of(with(bad)), "bad JSON");
}

TEST(Conversations, HostileJsonIsBadJson) {
  EXPECT_EQ(reason_of(std::string(100000, '[')), "bad JSON");
  EXPECT_EQ(reason_of(std::string(100000, '[') + std::string(100000, ']')), "JSON that is not an object");
  EXPECT_EQ(reason_of("{\"messages\":" + std::string(100000, '[') + std::string(100000, ']') + "}"),
            "a message without a role");
  EXPECT_EQ(reason_of(std::string("\0\0", 2)), "bad JSON");
}

TEST(Conversations, WrittenLinesReadBack) {
  Conversation conversation;
  conversation.messages = {{"user", "a\n\"\xE2\x80\xA8"}, {"assistant", std::string("b\0c", 3)}};
  conversation.id = "7";
  conversation.kind = "code";
  conversation.cut = true;
  const auto lines = lines_of(conversation_to_json(conversation) + "\n");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].conversation.messages, conversation.messages);
  EXPECT_EQ(lines[0].conversation.id, "7");
  EXPECT_EQ(lines[0].conversation.kind, "code");
  EXPECT_TRUE(lines[0].conversation.cut);
}

}  // namespace
}  // namespace draftsmith
