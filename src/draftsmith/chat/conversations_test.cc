// JSON lines as they come: every row is read or skipped for a reason, no line is lost and none splits.
#include "draftsmith/chat/conversations.h"

#include <gtest/gtest.h>

#include <sstream>

namespace draftsmith {
namespace {

std::vector<ConversationRow> rows_of(const std::string& text) {
  std::istringstream stream(text);
  ConversationReader reader(stream);
  std::vector<ConversationRow> rows;
  for (ConversationRow row; reader.next(row);) rows.push_back(row);
  return rows;
}

std::string reason_of(const std::string& line) {
  const auto rows = rows_of(line);
  return rows.size() == 1 ? rows[0].skip_reason : "not one row";
}

std::vector<ChatMessage> messages_of(const std::string& line) {
  const auto rows = rows_of(line);
  EXPECT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].skip_reason, "") << line;
  return rows[0].conversation.messages;
}

const std::string kRow = R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}]})";
const std::vector<ChatMessage> kHiYo = {{"user", "hi"}, {"assistant", "yo"}};

TEST(Conversations, SpellingsOfOneConversation) {
  EXPECT_EQ(messages_of(kRow), kHiYo);
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

TEST(Conversations, RowsThatCannotBeUsedSayWhy) {
  const auto row = [](const std::string& messages) { return "{\"messages\":[" + messages + "]}"; };
  const std::string user = R"({"role":"user","content":"hi"})";
  EXPECT_EQ(reason_of("{\"messages\":[]}"), "no messages");
  EXPECT_EQ(reason_of("{}"), "no messages");
  EXPECT_EQ(reason_of("[]"), "JSON that is not an object");
  EXPECT_EQ(reason_of("{\"messages\":3}"), "messages that are not a list");
  EXPECT_EQ(reason_of("{\"messages\":[3]}"), "a message without a role");
  EXPECT_EQ(reason_of(row(R"({"role":"system","content":"s"})")), "only system messages");
  EXPECT_EQ(reason_of(row(user + R"(,{"role":"assistant","content":""})")), "an empty answer");
  EXPECT_EQ(reason_of(row(user + R"(,{"role":"assistant","content":null})")), "a message without content");
  EXPECT_EQ(reason_of(row(user + R"(,{"role":"assistant","content":7})")), "content that is not text");
  EXPECT_EQ(
      reason_of(row(
          user + R"(,{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","content":"42"})")),
      "tools are not supported");
  EXPECT_EQ(reason_of(row(user + R"(,{"role":"tool","content":"42"})")), "tools are not supported");
  EXPECT_EQ(reason_of("{\"tools\":[{}],\"messages\":[" + user + "]}"), "tools are not supported");
  EXPECT_EQ(reason_of(row(R"({"role":"user","content":[{"type":"image_url","image_url":"x"}]})")),
            "an image or another part that is not text");
  EXPECT_EQ(reason_of(row(user + R"(,{"role":"critic","content":"bad"})")), "an unknown role");
  EXPECT_EQ(reason_of(row(user + R"(,{"role":"assistant","content":"yo","reasoning_content":"hm"})")),
            "reasoning_content is not supported");
  EXPECT_EQ(reason_of("{\"kind\":[],\"messages\":[" + user + "]}"), "an id or kind that is not text");
  EXPECT_EQ(reason_of(row(R"({"role":"user","content":")" + std::string(1100000, 'x') + "\"}")),
            "more than 1 MiB of text");
}

TEST(Conversations, PhysicalLinesAreRows) {
  const std::string separators =
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\xE2\x80\xA8\xC2\x85z\"},{\"role\":\"assistant\",\"content\":"
      "\"yo\"}]}";
  const std::string wide = "{\"unused\":\"" + std::string(3 << 20, 'u') + "\"," + kRow.substr(1);
  const auto rows = rows_of("\xEF\xBB\xBF" + kRow + "\n" + kRow + "\r\n" + separators + "\n\n   \n" + wide + "\n" +
                            kRow + "\n" + kRow.substr(0, 40) + "\n" + kRow);
  ASSERT_EQ(rows.size(), 7u);
  const std::int64_t lines[] = {1, 2, 3, 6, 7, 8, 9};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].line, lines[i]);
    EXPECT_EQ(rows[i].skip_reason, i == 5 ? "bad JSON" : "");
    if (i != 5 && i != 2) {
      EXPECT_EQ(rows[i].conversation.messages, kHiYo);
    }
  }
  EXPECT_EQ(rows[2].conversation.messages[0].content, "a\xE2\x80\xA8\xC2\x85z");
}

// Text that is not UTF-8 never becomes tokens: such a row is bad JSON.
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

TEST(Conversations, WrittenRowsReadBack) {
  Conversation conversation;
  conversation.messages = {{"user", "a\n\"\xE2\x80\xA8"}, {"assistant", std::string("b\0c", 3)}};
  conversation.id = "7";
  conversation.kind = "code";
  conversation.cut = true;
  const auto rows = rows_of(conversation_to_json(conversation) + "\n");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].conversation.messages, conversation.messages);
  EXPECT_EQ(rows[0].conversation.id, "7");
  EXPECT_EQ(rows[0].conversation.kind, "code");
  EXPECT_TRUE(rows[0].conversation.cut);
}

}  // namespace
}  // namespace draftsmith
