#include "draftsmith/bench/golden.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/kernels.h"

namespace draftsmith {
namespace {

const std::filesystem::path kGolden = DRAFTSMITH_SOURCE_DIR "/tests/golden";

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, NumbersOfThePublicImplementationsAreReproduced) {
  const GoldenReport report = verify_golden(kGolden / (std::string(GetParam()) + ".safetensors"));
  for (const GoldenError& e : report.errors) EXPECT_TRUE(e.ok()) << e.name << ": " << e.error << " > " << e.bound;
  EXPECT_TRUE(report.passed);
  EXPECT_GT(report.errors.size(), 30u);
}

TEST_P(Golden, AreReproducedByTheDefinitionsAlone) {
  const OnDefinitions definitions;
  const GoldenReport report = verify_golden(kGolden / (std::string(GetParam()) + ".safetensors"));
  for (const GoldenError& e : report.errors) EXPECT_TRUE(e.ok()) << e.name << ": " << e.error << " > " << e.bound;
}

INSTANTIATE_TEST_SUITE_P(Files, Golden,
                         testing::Values("single_document", "packed_two_documents", "sliding_window",
                                         "loss_mask_holes"));

// Copies a golden file and flips one bit of a tensor's first value.
class Perturbed : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  GoldenReport with_flipped_sign(const std::string& tensor) {
    std::ifstream in(kGolden / "single_document.safetensors", std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    std::uint64_t header = 0;
    for (int i = 7; i >= 0; --i) header = header << 8 | static_cast<unsigned char>(bytes[i]);
    const std::size_t entry = bytes.find("\"" + tensor + "\"");
    const std::size_t offsets = bytes.find("[", bytes.find("data_offsets", entry));
    const std::size_t at = 8 + header + std::stoul(bytes.substr(offsets + 1));
    bytes[at + 3] = static_cast<char>(bytes[at + 3] ^ 0x80);
    std::ofstream(folder_ / "case.safetensors", std::ios::binary) << bytes;
    std::filesystem::copy_file(kGolden / "single_document.json", folder_ / "case.json",
                               std::filesystem::copy_options::overwrite_existing);
    return verify_golden(folder_ / "case.safetensors");
  }

  const std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "draftsmith_golden";
};

TEST_F(Perturbed, OneChangedWeightFails) { EXPECT_FALSE(with_flipped_sign("weights.fc.weight").passed); }
TEST_F(Perturbed, OneChangedExpectedGradientFails) {
  EXPECT_FALSE(with_flipped_sign("expect.grad.layers.1.mlp.up_proj.weight").passed);
}
TEST_F(Perturbed, TheJsonSaysSo) {
  const std::string text = golden_reports_json({with_flipped_sign("input.target_hidden")});
  EXPECT_NE(text.find("\"passed\": false"), std::string::npos);
}

TEST(GoldenFiles, AMissingFileIsNamed) {
  try {
    verify_golden("/nowhere/case.safetensors");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("/nowhere/case.safetensors"), std::string::npos);
  }
}

}  // namespace
}  // namespace draftsmith
