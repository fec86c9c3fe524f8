#include "draftsmith/draft/draft_vocab.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/dflash/session.h"
#include "draftsmith/draft/dflash/test_drafter.h"
#include "draftsmith/nn/tensor_io.h"
#include "draftsmith/store/test_folder.h"

namespace draftsmith {
namespace {

DataSet data_of(const std::vector<std::int32_t>& tokens, const std::vector<std::uint8_t>& mask) {
  DataSet data;
  data.add_document(tokens, mask);
  return data;
}

TEST(DraftVocab, TakesTheMostFrequentSupervisedIdsInOrder) {
  const DataSet data = data_of({7, 7, 7, 2, 2, 5, 9, 9, 9, 9}, {1, 1, 1, 1, 1, 1, 0, 0, 0, 0});
  EXPECT_EQ(most_frequent_ids(data, 2, 12).ids, (std::vector<std::int32_t>{2, 7}));
  EXPECT_EQ(most_frequent_ids(data, 3, 12).ids, (std::vector<std::int32_t>{2, 5, 7}));
  EXPECT_EQ(most_frequent_ids(data, 5, 12).ids, (std::vector<std::int32_t>{0, 1, 2, 5, 7}));  // filled up from below
  EXPECT_TRUE(most_frequent_ids(data, 0, 12).whole());
  EXPECT_TRUE(most_frequent_ids(data, 12, 12).whole());
  EXPECT_DOUBLE_EQ(share_outside(data, most_frequent_ids(data, 2, 12), 12), 1.0 / 6);
  EXPECT_EQ(share_outside(data, {}, 12), 0);
}

TEST(DraftVocab, MapsBothWays) {
  const DraftVocab vocab{{2, 5, 7}};
  EXPECT_EQ(vocab.target_id(1), 5);
  EXPECT_EQ(vocab.rows(9), (std::vector<std::int32_t>{-1, -1, 0, -1, -1, 1, -1, 2, -1}));
  EXPECT_EQ(vocab.size(9), 3);
  EXPECT_EQ(DraftVocab().size(9), 9);
  EXPECT_EQ(DraftVocab().target_id(4), 4);
  EXPECT_TRUE(DraftVocab().rows(9).empty());
}

TEST(DraftVocab, AFileThatIsNoVocabularyIsRefused) {
  const TestFolder folder;
  const auto read = [&](const std::vector<std::int64_t>& offsets) {
    const at::Tensor tensor = at::tensor(offsets);
    const TensorToWrite entry = tensor_to_write(kDraftVocabTensor, tensor);
    write_safetensors(folder / "f.safetensors", std::span(&entry, 1), {});
    return read_draft_vocab(SafetensorsFile(folder / "f.safetensors"), 3, 10).ids;
  };
  EXPECT_EQ(read({0, 0, 7}), (std::vector<std::int32_t>{0, 1, 9}));
  EXPECT_THROW(read({0, 0, 8}), UserError);                      // beyond the vocabulary
  EXPECT_THROW(read({1, 0, 0}), UserError);                      // twice the same id
  EXPECT_THROW(read({0, -1, 3}), UserError);                     // falls back
  EXPECT_THROW(read({0, 0}), UserError);                         // too few
  EXPECT_THROW(read({0, 0, std::int64_t{1} << 62}), UserError);  // wraps round
}

// The smaller head chooses what the whole head would choose among the ids that may be drafted.
TEST(DraftVocab, SessionsProposeIdsOfTheTarget) {
  const c10::NoGradGuard no_gradients;
  const DrafterConfig config = small_config();
  const DFlashParams params = random_params(config);
  Rng rng(4, RngPurpose::kTest);
  const at::Tensor embedding = random_tensor(rng, {config.vocab_size, config.hidden_size});
  const at::Tensor features = random_tensor(rng, {9, config.num_taps() * config.hidden_size});
  const auto drafts = [&](const DraftVocab& vocab) {
    const Frozen frozen = freeze(embedding, embedding, vocab, kFloatPlace);
    DFlashSession session(config, params, kFloatPlace, frozen, 32);
    session.append(features);
    return session.propose(5, 3);
  };
  const std::vector<std::int32_t> whole = drafts({});
  DraftVocab vocab;
  for (std::int32_t id = 0; id < config.vocab_size; ++id)
    if (id % 3 == 0 || std::find(whole.begin(), whole.end(), id) != whole.end()) vocab.ids.push_back(id);
  EXPECT_EQ(drafts(vocab), whole);
  for (const std::int32_t id : drafts({{3, 30, 33, 59}})) EXPECT_TRUE(id == 3 || id == 30 || id == 33 || id == 59);
}

}  // namespace
}  // namespace draftsmith
