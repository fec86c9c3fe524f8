#include <ATen/ops/isfinite.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "draftsmith/base/check.h"
#include "draftsmith/draft/dflash/dflash_drafter.h"
#include "draftsmith/draft/dflash/forward.h"
#include "draftsmith/draft/dflash/test_drafter.h"
#include "draftsmith/draft/drafter_folder.h"
#include "draftsmith/draft/families.h"
#include "draftsmith/nn/tensor_io.h"
#include "draftsmith/store/files.h"

namespace draftsmith {
namespace {

const std::filesystem::path kGolden = DRAFTSMITH_SOURCE_DIR "/tests/golden";

at::Tensor test_embedding(const DrafterConfig& config) {
  Rng rng(3, RngPurpose::kTest);
  return random_tensor(rng, {config.vocab_size, config.hidden_size});
}

// Losses and gradients of document Y are the same when it is alone, after X, after another X, between others, and with
// padding behind it.
void expect_documents_apart(const DrafterConfig& config, const Place& place, double bound) {
  const DFlashParams params = random_params(config);
  const at::Tensor embedding = test_embedding(config);
  const TestDocument x = random_document(config, 40, 1), x2 = random_document(config, 33, 2),
                     y = random_document(config, 37, 3);
  const TestPack alone = pack_of(config, {y});
  const Outcome expected = run_pack(config, params, embedding, alone, all_anchors(alone.pack, 0), place);
  struct Setting {
    std::vector<TestDocument> documents;
    std::size_t index;
    std::int64_t padding;
  };
  for (const Setting& setting :
       {Setting{{x, y}, 1, 0}, Setting{{x2, y}, 1, 0}, Setting{{x, x2, y, x}, 2, 0}, Setting{{y}, 0, 30}}) {
    const TestPack in = pack_of(config, setting.documents, setting.padding);
    const Outcome got = run_pack(config, params, embedding, in, all_anchors(in.pack, setting.index), place);
    EXPECT_LT(relative_error(got.nll, expected.nll), bound);
    EXPECT_LT(relative_error(got.hidden, expected.hidden), bound);
    for (std::size_t i = 0; i < got.gradients.size(); ++i) {
      EXPECT_LT(relative_error(got.gradients[i], expected.gradients[i]), bound) << i;
    }
  }
}

TEST(Drafter, DocumentsOfAPackDoNotTouchEachOther) {
  expect_documents_apart(small_config(), kFloatPlace, 2e-6);
  expect_documents_apart(small_sliding_config(9), kFloatPlace, 2e-6);
}

TEST(Drafter, LayersComputedAgainGiveTheSameBits) {
  for (const Place& place : {kFloatPlace, Place{}}) {
    const DrafterConfig config = small_sliding_config(9);
    const DFlashParams params = random_params(config);
    const at::Tensor embedding = test_embedding(config);
    const TestPack in = pack_of(config, {random_document(config, 40, 1), random_document(config, 30, 2)});
    // Both all anchors of a document and one alone, whose few rows would take another way without gradients.
    for (const std::vector<std::int64_t>& anchors : {all_anchors(in.pack, 1), {45}}) {
      const Outcome kept = run_pack(config, params, embedding, in, anchors, place),
                    again = run_pack(config, params, embedding, in, anchors, place, /*recompute=*/true);
      EXPECT_TRUE(again.hidden.equal(kept.hidden));
      for (std::size_t i = 0; i < kept.gradients.size(); ++i)
        EXPECT_TRUE(again.gradients[i].equal(kept.gradients[i])) << i;
    }
  }
}

TEST(Drafter, ABlockIsTheSameWithAndWithoutOthers) {
  const DrafterConfig config = small_sliding_config(9);
  const DFlashParams params = random_params(config);
  const at::Tensor embedding = test_embedding(config);
  const TestPack in = pack_of(config, {random_document(config, 50, 1)});
  const std::vector<std::int64_t> anchors = all_anchors(in.pack, 0);
  const Outcome all = run_pack(config, params, embedding, in, anchors);
  for (const std::size_t b : {std::size_t{0}, std::size_t{7}, std::size_t{48}}) {
    const Outcome one = run_pack(config, params, embedding, in, {anchors[b]});
    const std::int64_t first = static_cast<std::int64_t>(b) * config.block_size;
    EXPECT_LT(relative_error(all.hidden.narrow(0, first, config.block_size), one.hidden), 2e-6);
  }
}

// Gradient of one block's hidden states with respect to the features and to all blocks' embeddings.
TEST(Drafter, ABlockSeesOnlyWhatComesBeforeItsAnchorAndItself) {
  DrafterConfig config = small_config();
  config.block_size = 8;
  const DFlashParams params = random_params(config);
  const TestPack in = pack_of(config, {random_document(config, 24, 1)});
  const std::vector<std::int64_t> anchors = {4, 6, 7, 15};
  const BlockInputs blocks = make_block_inputs(in.pack, anchors, config);
  Rng rng(8, RngPurpose::kTest);
  for (std::size_t b = 0; b < anchors.size(); ++b) {
    for (const std::int64_t slot : {0, 3, 7}) {
      const at::Tensor features = in.features.clone().requires_grad_(true);
      const at::Tensor x = random_tensor(rng, {32, config.hidden_size}).requires_grad_(true);
      const ForwardInputs inputs{.taps = features, .block_embeddings = x, .blocks = &blocks};
      const at::Tensor hidden = dflash_forward(config, params, inputs, at::kFloat);
      const std::int64_t first = static_cast<std::int64_t>(b) * 8;
      hidden.select(0, first + slot).sum().backward();
      const at::Tensor by_position = features.grad().abs().sum(1), by_slot = x.grad().abs().sum(1);
      for (std::int64_t t = 0; t < in.pack.length; ++t) {
        EXPECT_EQ(by_position.select(0, t).item<float>() != 0.0f, t < anchors[b]) << "feature " << t;
      }
      for (std::int64_t row = 0; row < 32; ++row) {
        EXPECT_EQ(by_slot.select(0, row).item<float>() != 0.0f, row / 8 == static_cast<std::int64_t>(b))
            << "slot " << row;
      }
    }
  }
}

// One thread, because several threads divide a product by its number of rows, padding included, and round otherwise.
TEST(Drafter, AnAnchorAtZeroAndPaddingStayFinite) {
  const OneThread one_thread;
  const DrafterConfig config = small_config();
  const DFlashParams params = random_params(config);
  const at::Tensor embedding = test_embedding(config);
  const TestDocument two_tokens = random_document(config, 2, 5);
  for (const Place& place : {kFloatPlace, Place{}}) {
    const Outcome padded = run_pack(config, params, embedding, pack_of(config, {two_tokens}, 62), {0}, place);
    const Outcome plain = run_pack(config, params, embedding, pack_of(config, {two_tokens}), {0}, place);
    EXPECT_EQ(padded.sums.mask_sum, 1);
    EXPECT_TRUE(std::isfinite(padded.sums.loss_sum));
    EXPECT_EQ(padded.sums.loss_sum, plain.sums.loss_sum);
    for (std::size_t i = 0; i < padded.gradients.size(); ++i) {
      EXPECT_TRUE(at::isfinite(padded.gradients[i]).all().item<bool>()) << i;
      EXPECT_LT(relative_error(padded.gradients[i], plain.gradients[i]), 1e-6) << i;
    }
  }
}

TEST(Drafter, HalfPrecisionFollowsFullPrecision) {
  const DrafterConfig config = small_sliding_config(9);
  const DFlashParams params = random_params(config);
  const at::Tensor embedding = test_embedding(config);
  const TestPack in = pack_of(config, {random_document(config, 50, 1)});
  const Outcome full = run_pack(config, params, embedding, in, all_anchors(in.pack, 0));
  const Outcome half = run_pack(config, params, embedding, in, all_anchors(in.pack, 0), Place{});
  EXPECT_EQ(half.hidden.scalar_type(), at::kBFloat16);
  EXPECT_LT(relative_error(half.hidden, full.hidden), 0.05);
  EXPECT_NEAR(half.sums.loss_sum / full.sums.loss_sum, 1.0, 0.01);
  for (std::size_t i = 0; i < full.gradients.size(); ++i) {
    const at::Tensor difference = half.gradients[i] - full.gradients[i];
    EXPECT_EQ(half.gradients[i].scalar_type(), at::kFloat);
    EXPECT_LT(difference.norm().item<double>(), 0.1 * full.gradients[i].norm().item<double>()) << i;
  }
}

TEST(Drafter, SizesOfTheSeedDrafter) {
  DrafterConfig config;
  config.hidden_size = 5120;
  config.intermediate_size = 17408;
  config.num_layers = 5;
  config.num_heads = 32;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  config.target_layer_ids = {1, 21, 41, 61};
  config.layer_kinds.assign(5, LayerKind::kFull);
  EXPECT_EQ(num_parameters(*drafter_shapes(config)), 1703998720);
}

TEST(Drafter, RandomStartIsTheSameForTheSameSeed) {
  DFlashParams a = empty_dflash_params(small_config()), b = empty_dflash_params(small_config());
  Rng first(4, RngPurpose::kInit), second(4, RngPurpose::kInit);
  init_random(a, first);
  init_random(b, second);
  EXPECT_TRUE(a.fc.equal(b.fc));
  EXPECT_NEAR(a.fc.std().item<double>(), 0.02, 0.001);
  EXPECT_EQ(a.norm.min().item<float>(), 1.0f);
}

class DrafterFolder : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const DrafterConfig& config, const std::string& prefix, const std::string& without, at::ScalarType type) {
    write_text_file(folder_ / "config.json", drafter_config_to_json(config, "float32"));
    DFlashParams params = random_params(config, 2);
    std::vector<at::Tensor> keep;
    std::vector<TensorToWrite> list;
    visit_params(params, [&](const std::string& name, const at::Tensor& tensor, Role) {
      keep.push_back(tensor.detach().to(type));
      if (name != without) list.push_back(tensor_to_write(prefix + name, keep.back()));
    });
    write_safetensors(folder_ / "model.safetensors", list, {});
  }
  std::string refusal() {
    try {
      read_drafter_folder(folder_);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  const std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "draftsmith_drafter_folder";
};

TEST_F(DrafterFolder, NamesWithAndWithoutPrefixAndOtherTypesAreRead) {
  for (const char* prefix : {"", "model."}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      write(small_config(), prefix, "", type);
      LoadedDrafter drafter = read_drafter_folder(folder_);
      DFlashParams expected = random_params(small_config(), 2);
      EXPECT_EQ(param_of(*drafter.drafter, "fc.weight").scalar_type(), at::kFloat);
      EXPECT_TRUE(param_of(*drafter.drafter, "layers.2.mlp.down_proj.weight")
                      .equal(expected.layers[2].down_proj.detach().to(type).to(at::kFloat)));
    }
  }
}

TEST_F(DrafterFolder, AMissingOrMisshapenTensorIsNamed) {
  write(small_config(), "", "layers.1.self_attn.q_norm.weight", at::kFloat);
  EXPECT_NE(refusal().find("layers.1.self_attn.q_norm.weight"), std::string::npos);
  write(small_config(), "", "", at::kFloat);
  DrafterConfig other = small_config();
  other.intermediate_size = 1 << 22;  // no memory follows this number
  write_text_file(folder_ / "config.json", drafter_config_to_json(other, "float32"));
  EXPECT_NE(refusal().find("layers.0.mlp.gate_proj.weight' is 80 x 48, expected 4194304 x 48"), std::string::npos);
}

TEST(DrafterFolders, TheGoldenDraftersAreRead) {
  for (const char* name : {"decode_qwen3", "decode_llama"}) {
    const LoadedDrafter drafter = read_drafter_folder(kGolden / name / "drafter");
    EXPECT_EQ(drafter.config().block_size, 6);
    EXPECT_EQ(drafter.config().target_layer_ids, (std::vector<std::int64_t>{1, 3}));
    EXPECT_EQ(drafter.config().num_layers, 2);
  }
}

}  // namespace
}  // namespace draftsmith
