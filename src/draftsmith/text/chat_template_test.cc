// Templates render as llama.cpp's server renders them, and those that cannot be rendered are refused at once.
#include "draftsmith/text/chat_template.h"

#include <chat.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "draftsmith/base/check.h"
#include "draftsmith/store/files.h"
#include "draftsmith/text/text_test_models.h"

namespace draftsmith {
namespace {

const std::vector<ChatMessage> kTwo = {{"user", "hi"}, {"assistant", "yo"}};

std::string render(const std::string& source, const std::vector<ChatMessage>& messages = kTwo) {
  return ChatTemplate(source, "<s>", "</s>").render(messages, GenerationPrompt::kOmit);
}

std::string refusal(const std::string& source) {
  try {
    render(source);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(ChatTemplate, SmolLmPutsItsSystemTextBeforeTheFirstUser) {
  const ChatTemplate chat_template = ChatTemplate::of(smol());
  EXPECT_EQ(chat_template.render(std::span(kTwo).first(1), GenerationPrompt::kAdd),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(chat_template.digest(), smol().template_digest());
}

// Other engines were found to get these features wrong.
TEST(ChatTemplate, EngineDoesWhatTemplatesCountOn) {
  EXPECT_EQ(render("{% for m in messages %}\n   {{ m.role }}\n{% endfor %}\nEND\n"), "   user\n   assistant\nEND");
  EXPECT_EQ(
      render("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}"),
      "2");
  EXPECT_EQ(render("{% set n = 0 %}{% for m in messages %}{% set n = n + 1 %}{% endfor %}{{ n }}"), "0");
  EXPECT_EQ(render("{{ {'b': 1, 'a': [\"<&>'\xE4\xBD\xA0\", none, true, 1.5]} | tojson }}"),
            "{\"b\": 1, \"a\": [\"<&>'\xE4\xBD\xA0\", null, true, 1.5]}");
  EXPECT_EQ(render("[{{ messages[0].nothing }}]"), "[]");
  EXPECT_EQ(render("{% for m in messages %}{{ m.role }}{% break %}{% endfor %}"), "user");
  EXPECT_EQ(render("{{ messages[-1].content }}"), "yo");
  EXPECT_EQ(render("{% for m in messages[::-1] %}{{ m.content }}{% endfor %}"), "yohi");
  EXPECT_EQ(render("{% for m in messages | reverse %}{{ m.content }}{% endfor %}"), "yohi");
  EXPECT_EQ(render("{{ 'a</think>b</think>c'.split('</think>')[-1] }}"), "c");
  EXPECT_EQ(render("{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"), "hiyo");
  EXPECT_EQ(render("{{ bos_token }}{{ eos_token }}"), "<s></s>");
}

// Here llama.cpp's engine departs from Jinja2. Its server prints the same, so training uses it too.
TEST(ChatTemplate, KnownDifferencesOfTheEngine) {
  EXPECT_EQ(render("[{{ none }}]"), "[]");                    // Jinja2: [None]
  EXPECT_EQ(render("{{ 'a' + messages[0].nothing }}"), "a");  // Jinja2: an error
  EXPECT_EQ(render("{{ 'a' + none }}"), "a");                 // Jinja2: an error
}

TEST(ChatTemplate, WhatTheEngineCannotDoIsRefusedAtOnceByName) {
  EXPECT_NE(refusal("a\n{% frobnicate %}").find("frobnicate"), std::string::npos);
  EXPECT_NE(refusal("a\n{{ 'a' | nosuch }}").find("nosuch"), std::string::npos);
  EXPECT_NE(refusal("a\n{{ 'a' | nosuch }}").find("line 2"), std::string::npos);
  EXPECT_NE(refusal("{{ messages[0].content.zork() }}").find("zork"), std::string::npos);
  EXPECT_NE(refusal("{{ messages"), "");
  EXPECT_NE(refusal("{% if true %}x"), "");
  EXPECT_NE(refusal(""), "");
  EXPECT_EQ(refusal("a\n{{ 'a' | nosuch }}").find('\n'), std::string::npos);
}

TEST(ChatTemplate, DepthOfATemplateIsBounded) {
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  EXPECT_NE(refusal("{{ " + repeated("(", 10000) + "1" + repeated(")", 10000) + " }}"), "");
  EXPECT_NE(refusal(repeated("{% if true %}", 10000) + repeated("{% endif %}", 10000)), "");
  EXPECT_NE(refusal("{{ " + repeated("not ", 10000) + "1 }}"), "");
  EXPECT_NE(refusal("{{ 1" + repeated("~1", 10000) + " }}"), "");
  EXPECT_EQ(refusal("{{ '" + repeated("(", 10000) + "' }}{# " + repeated("[", 10000) + " #}"), "");
  EXPECT_EQ(refusal(repeated("{% if true %}x{% endif %}", 1000)), "");
}

TEST(ChatTemplate, RefusalOfAConversationIsAnErrorOfThatConversation) {
  const ChatTemplate strict(
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}",
      "", "");
  EXPECT_EQ(strict.render(kTwo, GenerationPrompt::kOmit), "hiyo");
  const std::vector<ChatMessage> twice = {{"user", "a"}, {"user", "b"}};
  try {
    strict.render(twice, GenerationPrompt::kOmit);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("roles must alternate"), std::string::npos);
  }
}

std::string served(common_chat_templates* templates, const std::vector<ChatMessage>& messages, bool generation_prompt) {
  common_chat_templates_inputs inputs;
  inputs.add_generation_prompt = generation_prompt;
  for (const ChatMessage& message : messages) {
    common_chat_msg item;
    item.role = message.role;
    item.content = message.content;
    inputs.messages.push_back(item);
  }
  return common_chat_templates_apply(templates, inputs).prompt;
}

// The server's code and ours render each template that comes with llama.cpp's source.
TEST(ChatTemplate, TextIsTheServersText) {
  const std::vector<std::vector<ChatMessage>> conversations = {
      {{"user", "hi"}},
      {{"system", "be kind"}, {"user", " hi\n"}},
      {{"user", "hi"}, {"assistant", "yo"}, {"user", "and?"}},
  };
  std::vector<std::string> differing;
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DRAFTSMITH_DEPS_DIR "/llama.cpp/models/templates")) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string source = read_text_file(entry.path());
    for (const auto& messages : conversations) {
      std::string theirs, ours;
      try {
        common_chat_templates_ptr templates = common_chat_templates_init(nullptr, source, "<s>", "</s>");
        theirs = served(templates.get(), messages, true);
      } catch (const std::exception&) {
        continue;  // not served at all
      }
      try {
        ours = ChatTemplate(source, "<s>", "</s>").render(messages, GenerationPrompt::kAdd);
      } catch (const UserError& error) {
        ours = error.what();
      }
      ++compared;
      if (ours != theirs)
        differing.push_back(entry.path().filename().string() + "\n--- theirs\n" + theirs + "\n--- ours\n" + ours);
    }
  }
  EXPECT_GT(compared, 100);
  std::string all;
  for (const std::string& name : differing) all += name + "\n";
  EXPECT_EQ(all, "");
}

}  // namespace
}  // namespace draftsmith
