// Data sets survive the disk, and files that contradict themselves are refused by name.
#include "draftsmith/data/data_set.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "draftsmith/base/check.h"
#include "draftsmith/store/safetensors.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

class DataFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("draftsmith_data_set_test." + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  fs::path root_;
};

DataSet two_documents() {
  DataSet data;
  data.add_document(std::vector<std::int32_t>{5, 6, 7}, std::vector<std::uint8_t>{0, 1, 1});
  data.add_document(std::vector<std::int32_t>{8, 9}, std::vector<std::uint8_t>{0, 0});
  data.kind = {1, 0};
  data.kind_names = {"chat", "co\"de"};
  data.tokenizer_digest = std::string(64, 'a');
  data.template_digest = std::string(64, 'b');
  return data;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(DataSet, PromptIsWhatStandsBeforeTheFirstSupervisedToken) {
  const DataSet data = two_documents();
  EXPECT_EQ(data.prompt_length(0), 1);
  EXPECT_EQ(data.prompt_length(1), 2);
  EXPECT_EQ(data.kind_of(0), "co\"de");
  EXPECT_EQ(DataSet{}.num_documents(), 0);
}

TEST_F(DataFolderTest, WhatIsWrittenIsRead) {
  const DataSet data = two_documents();
  DataSet no_documents;
  no_documents.tokenizer_digest = data.tokenizer_digest;
  write_data_folder(root_ / "d", {data, no_documents});
  const DataFolder back = read_data_folder(root_ / "d");
  EXPECT_EQ(back.train.token_ids, data.token_ids);
  EXPECT_EQ(back.train.loss_mask, data.loss_mask);
  EXPECT_EQ(back.train.document_offsets, data.document_offsets);
  EXPECT_EQ(back.train.kind, data.kind);
  EXPECT_EQ(back.train.kind_names, data.kind_names);
  EXPECT_EQ(back.train.tokenizer_digest, data.tokenizer_digest);
  EXPECT_EQ(back.train.template_digest, data.template_digest);
  EXPECT_EQ(back.eval.num_documents(), 0);
}

TEST_F(DataFolderTest, ReplacesOnlyItsOwnKindOfFolder) {
  const DataFolder data{two_documents(), two_documents()};
  fs::create_directories(root_ / "empty");
  write_data_folder(root_ / "empty", data);
  write_data_folder(root_ / "empty", data);  // now it holds train.safetensors
  fs::create_directories(root_ / "photos");
  std::ofstream(root_ / "photos" / "cat.jpg") << "meow";
  EXPECT_NE(message_of([&] { write_data_folder(root_ / "photos", data); }).find("photos"), std::string::npos);
  EXPECT_TRUE(fs::exists(root_ / "photos" / "cat.jpg"));
  std::ofstream(root_ / "file") << "x";
  EXPECT_THROW(write_data_folder(root_ / "file", data), UserError);
}

// Writes a file from raw parts, so that it may contradict itself.
struct RawSet {
  std::vector<std::int32_t> ids = {1, 2, 3};
  std::vector<std::uint8_t> mask = {0, 1, 1};
  std::vector<std::int64_t> offsets = {0, 2, 3};
  std::vector<std::uint8_t> kind = {0, 0};
  std::map<std::string, std::string> metadata = {
      {"tokenizer_digest", "t"}, {"template_digest", "c"}, {"kind_names", "[\"chat\"]"}};
  DType mask_type = DType::kU8;
  void write(const fs::path& file) const {
    const auto row = [](const char* name, DType dtype, const auto& values) {
      return TensorToWrite{name, dtype, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values))};
    };
    const std::vector<TensorToWrite> tensors = {row("document_offsets", DType::kI64, offsets),
                                                row("token_ids", DType::kI32, ids), row("loss_mask", mask_type, mask),
                                                row("kind", DType::kU8, kind)};
    write_safetensors(file, tensors, metadata);
  }
};

TEST_F(DataFolderTest, ContradictionsAreRefusedByName) {
  const auto refusal = [&](auto change) {
    RawSet raw;
    change(raw);
    raw.write(root_ / "x.safetensors");
    return message_of([&] { read_data_set(root_ / "x.safetensors"); });
  };
  EXPECT_EQ(refusal([](RawSet&) {}), "no error");
  const auto names = [](const std::string& message, const char* word) {
    return message.find(word) != std::string::npos;
  };
  EXPECT_PRED2(names, refusal([](RawSet& r) { r.offsets = {1, 2, 3}; }), "document_offsets must start");
  EXPECT_PRED2(names, refusal([](RawSet& r) { r.offsets = {}; }), "document_offsets must start");
  EXPECT_PRED2(names, refusal([](RawSet& r) { r.offsets = {0, 4, 3}; }), "document_offsets falls");
  EXPECT_PRED2(names, refusal([](RawSet& r) { r.offsets = {0, 2, 2}; }), "document_offsets ends");
  EXPECT_PRED2(names, refusal([](RawSet& r) { r.ids[1] = -1; }), "token_ids");
  EXPECT_PRED2(names, refusal([](RawSet& r) { r.mask[1] = 2; }), "loss_mask");
  EXPECT_PRED2(names, refusal([](RawSet& r) { r.mask.pop_back(); }), "loss_mask");
  EXPECT_PRED2(names, refusal([](RawSet& r) { r.mask_type = DType::kI8; }), "loss_mask");
  EXPECT_PRED2(names, refusal([](RawSet& r) { r.kind = {0, 1}; }), "kind");
  EXPECT_PRED2(names, refusal([](RawSet& r) { r.kind = {0}; }), "kind");
  EXPECT_PRED2(names, refusal([](RawSet& r) { r.metadata["kind_names"] = "[1]"; }), "kind_names");
  EXPECT_PRED2(names, refusal([](RawSet& r) { r.metadata["kind_names"] = "{"; }), "kind_names");
  EXPECT_PRED2(names, refusal([](RawSet& r) { r.metadata.erase("tokenizer_digest"); }), "tokenizer_digest");
}

}  // namespace
}  // namespace draftsmith
