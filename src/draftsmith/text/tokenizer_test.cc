// Tests the tokenizer of a GGUF file and the choice of the mask token.
#include <gtest/gtest.h>

#include "draftsmith/base/check.h"
#include "draftsmith/store/files.h"
#include "draftsmith/text/mask_token.h"
#include "draftsmith/text/text_test_models.h"

namespace draftsmith {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(Tokenizer, TextSurvivesTheRoundTrip) {
  const std::string texts[] = {"hello", " a  b\n\nc\t", "caf\xC3\xA9 \xF0\x9F\xA6\x99", std::string("a\0b", 3), "1234",
                               ""};
  for (const std::string& text : texts) {
    const Ids ids = smol().encode(text, true);
    EXPECT_EQ(smol().decode(ids, true), text);
    std::string pieces;
    for (std::int32_t id : ids) pieces += smol().piece(id, true);
    EXPECT_EQ(pieces, text);
  }
}

TEST(Tokenizer, ControlTokensAreParsedOnlyWhenAsked) {
  EXPECT_EQ(smol().encode("<|im_start|><|im_end|>", true), (Ids{kImStart, kImEnd}));
  EXPECT_GT(smol().encode("<|im_start|>", false).size(), 1u);
  EXPECT_EQ(smol().encode("hi", true).size(), 1u);  // no bos, no eos
  EXPECT_EQ(smol().decode(Ids{kImEnd}, false), "");
}

TEST(Tokenizer, SmolLmIsWhatItsFileSays) {
  EXPECT_EQ(smol().size(), 49152);
  EXPECT_EQ(smol().bos(), 1);
  EXPECT_EQ(smol().eos(), 2);
  EXPECT_EQ(smol().pad(), 2);
  EXPECT_EQ(smol().mask(), -1);
  EXPECT_FALSE(smol().adds_bos());
  EXPECT_TRUE(smol().is_end(2));
  EXPECT_TRUE(smol().is_control(1));
  EXPECT_FALSE(smol().is_end(1));
  EXPECT_NE(smol().chat_template().find("im_start"), std::string::npos);
}

// The digest decides whether data fits a target: a new value makes every prepared folder unusable.
TEST(Tokenizer, DigestDoesNotChange) {
  EXPECT_EQ(smol().digest(), "e752eb0eabea386cbc5e14f93a2e779337c58012d540f67c71fe90373085424d");
  EXPECT_EQ(smol().template_digest().size(), 64u);
}

TEST(Tokenizer, FilesThatAreNoModelsAreRefused) {
  EXPECT_THROW(Tokenizer::from_gguf("/nonexistent.gguf"), UserError);
  EXPECT_THROW(Tokenizer::from_gguf(DRAFTSMITH_SOURCE_DIR "/CMakeLists.txt"), UserError);
}

TEST(MaskToken, NoneGivenTakesAnUnusedControlToken) {
  const MaskTokenChoice choice = choose_mask_token(smol(), -1, smol().size());
  EXPECT_EQ(choice.id, 16);
  EXPECT_NE(choice.why.find("<empty_output>"), std::string::npos);
}

TEST(MaskToken, FreeEmbeddingRowComesBeforeControlTokens) {
  EXPECT_EQ(choose_mask_token(smol(), -1, smol().size() + 8).id, smol().size());
}

TEST(MaskToken, GivenIdsArePassedOnOrRefused) {
  EXPECT_EQ(choose_mask_token(smol(), 3, smol().size()).id, 3);
  EXPECT_EQ(choose_mask_token(smol(), 49151, smol().size()).id, 49151);
  EXPECT_EQ(choose_mask_token(smol(), 49155, smol().size() + 8).id, 49155);
  EXPECT_THROW(choose_mask_token(smol(), 49152, smol().size()), UserError);
  EXPECT_THROW(choose_mask_token(smol(), -2, smol().size()), UserError);
  EXPECT_THROW(choose_mask_token(smol(), std::int64_t{1} << 40, smol().size()), UserError);
  EXPECT_THROW(choose_mask_token(smol(), 2, smol().size()), UserError);  // end of turn and padding
  EXPECT_THROW(choose_mask_token(smol(), 0, smol().size()), UserError);  // end of text
}

// This tokenizer is made of names, so that the rules can be tried one by one.
class NamedTokens final : public Tokenizer {
 public:
  std::vector<std::string> names;
  std::int32_t mask_id = -1, pad_id = -1, end_id = -1;
  std::string source;

  std::int64_t size() const override { return static_cast<std::int64_t>(names.size()); }
  Ids encode(std::string_view text, bool) const override {
    Ids ids;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (text.find(names[i]) != std::string_view::npos) ids.push_back(static_cast<std::int32_t>(i));
    }
    return ids;
  }
  std::string piece(std::int32_t id, bool) const override { return names[id]; }
  std::string decode(std::span<const std::int32_t>, bool) const override { return ""; }
  bool is_control(std::int32_t id) const override { return id < size() && names[id].starts_with("<"); }
  bool is_end(std::int32_t id) const override { return id == end_id; }
  std::int32_t bos() const override { return -1; }
  std::int32_t eos() const override { return end_id; }
  std::int32_t pad() const override { return pad_id; }
  std::int32_t unk() const override { return -1; }
  std::int32_t mask() const override { return mask_id; }
  bool adds_bos() const override { return false; }
  std::string digest() const override { return ""; }
  std::string chat_template() const override { return source; }
};

TEST(MaskToken, TokenizersOwnMaskComesFirst) {
  NamedTokens tokenizer;
  tokenizer.names = {"a", "<mask>", "<x>", "<end>"};
  tokenizer.mask_id = 1;
  tokenizer.end_id = 3;
  EXPECT_EQ(choose_mask_token(tokenizer, -1, 8).id, 1);
  tokenizer.mask_id = 3;
  EXPECT_THROW(choose_mask_token(tokenizer, -1, 8), UserError);
}

TEST(MaskToken, TokensTheTemplatePutsTogetherAreNeverTaken) {
  NamedTokens tokenizer;
  tokenizer.names = {"a", "<free>", "<user>", "<quoted>", "<pad>", "<end>"};
  tokenizer.pad_id = 4;
  tokenizer.end_id = 5;
  tokenizer.source =
      "{% for m in messages %}{{ '<' + m.role + '>' + m.content }}{% endfor %}{% if false %}<quoted>{% endif %}";
  EXPECT_EQ(choose_mask_token(tokenizer, -1, 6).id, 1);
  tokenizer.names[1] = "plain";
  EXPECT_THROW(choose_mask_token(tokenizer, -1, 6), UserError);
}

}  // namespace
}  // namespace draftsmith
