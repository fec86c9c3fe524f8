#include "draftsmith/store/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <numeric>

#include "draftsmith/store/files.h"
#include "draftsmith/store/test_folder.h"

namespace draftsmith {
namespace fs = std::filesystem;

namespace {

std::string prefixed(std::uint64_t length, const std::string& rest) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + rest;
}

// Builds a safetensors file of this header and `num_bytes` bytes of data 0, 1, 2 ...
std::string file_text(const std::string& header, std::size_t num_bytes) {
  std::string data(num_bytes, '\0');
  for (std::size_t i = 0; i < num_bytes; ++i) data[i] = static_cast<char>(i);
  return prefixed(header.size(), header + data);
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

void expect_refused(const std::string& text, const std::string& part) {
  const TestFolder folder;
  write_text_file(folder / "bad.safetensors", text);
  EXPECT_USER_ERROR(SafetensorsFile(folder / "bad.safetensors"), "bad.safetensors", part);
}

const std::string kGoodHeader = "{" + entry("a", "F32", "[2]", "[0,8]") + "}";

TEST(SafetensorsRead, WildLengthsAreRefused) {
  const std::string good = file_text(kGoodHeader, 8);
  const std::string body = good.substr(8);
  expect_refused("", "it is empty");
  expect_refused(good.substr(0, 7), "only 7 bytes");
  expect_refused(prefixed(~std::uint64_t{0}, body), "18446744073709551615");
  expect_refused(prefixed(~std::uint64_t{7}, body), "18446744073709551608");
  expect_refused(prefixed(100000001, body), "at most 100000000 are allowed");
  expect_refused(prefixed(5000, body), "5000 bytes, but the file has");
  expect_refused(good.substr(0, good.size() - 3), "'a': it ends at byte 8 of the data, but the file holds only 5");
}

TEST(SafetensorsRead, FilesOfAnotherKindAreRecognised) {
  expect_refused("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 538090408\n", "git-lfs pointer");
  expect_refused("<!DOCTYPE html><html><head><title>404</title></head></html>", "web page");
  expect_refused("\n  <html lang=\"en\">", "web page");
  expect_refused(std::string("GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16), "GGUF file");
  const TestFolder folder;
  EXPECT_USER_ERROR(SafetensorsFile(folder / "none"), "none", "No such file");
  EXPECT_USER_ERROR(SafetensorsFile(folder.path()), folder.path().string(), "not a file");
}

TEST(SafetensorsRead, BadRangesAreRefusedByTensor) {
  const auto f32 = [](const std::string& name, const std::string& shape, const std::string& offsets) {
    return entry(name, "F32", shape, offsets);
  };
  expect_refused(file_text("{" + f32("a", "[2]", "[0,8]") + "," + f32("b", "[2]", "[4,12]") + "}", 12),
                 "'b': its bytes overlap");
  expect_refused(file_text("{" + f32("a", "[2]", "[0,8]") + "," + f32("b", "[2]", "[0,8]") + "}", 8),
                 "'b': its bytes overlap");
  expect_refused(file_text("{" + f32("a", "[2]", "[0,8]") + "," + f32("b", "[2]", "[12,20]") + "}", 20),
                 "'b': 4 bytes before it");
  expect_refused(file_text("{" + f32("a", "[2]", "[8,0]") + "}", 8), "'a': its bytes end before");
  expect_refused(file_text(kGoodHeader, 12), "4 bytes at its end belong to no tensor");
  expect_refused(file_text("{" + f32("a", "[1000,1000]", "[0,4]") + "}", 4),
                 "'a': its shape and type need 4000000 bytes");
  expect_refused(file_text("{" + f32("a", "[8589934592,2147483648]", "[0,0]") + "}", 0), "'a': its shape is too large");
  expect_refused(file_text("{" + f32("a", "[2]", "[8]") + "}", 8), "'a': 'data_offsets' must hold two numbers, not 1");
  expect_refused(file_text("{" + f32("a", "[2]", "[0.0,8.0]") + "}", 8),
                 "'a': 'data_offsets' holds a number that is not whole");
  expect_refused(file_text("{" + f32("a", "[2]", "[-8,0]") + "}", 8), "'a': 'data_offsets' holds a negative number");
  expect_refused(file_text("{" + f32("a", "[2]", "[0,18446744073709551615]") + "}", 8), "'a': the number");
  expect_refused(file_text("{" + f32("a", "[2]", "[0,99999999999999999999]") + "}", 8), "'a': 'data_offsets' holds");
}

TEST(SafetensorsRead, BadHeadersAreRefusedByTensor) {
  const std::string a = entry("a", "F32", "[2]", "[0,8]");
  expect_refused(file_text("{" + entry("a", "F7", "[8]", "[0,8]") + "}", 8), "tensor 'a': its type 'F7' is not known");
  expect_refused(file_text("{\"__metadata__\":{\"n\":1}," + a + "}", 8), "'n' is a number");
  expect_refused(file_text("{\"__metadata__\":{\"n\":{}}," + a + "}", 8), "'n' is an object");
  expect_refused(file_text("{\"__metadata__\":[]," + a + "}", 8), "__metadata__ must hold text only, but it is a list");
  expect_refused(file_text("{" + a + "," + entry("a", "F32", "[2]", "[8,16]") + "}", 16),
                 "'a': the name appears twice");
  expect_refused(file_text("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0), "'a': 'dtype' appears twice");
  expect_refused(file_text("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8), "'a': 'data_offsets' is missing");
  expect_refused(file_text("{\"a\":{\"dtype\":3}}", 0), "'a': 'dtype' holds a number");
  expect_refused(file_text("{\"a\":{\"shape\":\"F32\"}}", 0), "'a': 'shape' holds text");
  expect_refused(file_text("{\"a\":{\"shape\":[[2]]}}", 0), "'a': 'shape' holds a list");
  expect_refused(file_text("{\"a\":{\"shape\":[\"2\"]}}", 0), "'a': 'shape' holds text");
  expect_refused(file_text("{\"a\":{\"shape\":[true]}}", 0), "'a': 'shape' holds true or false");
  expect_refused(file_text("{\"a\":[1]}", 0), "'a': its description is a list");
  expect_refused(file_text("{\"a\":null}", 0), "'a': its description is null");
  expect_refused(file_text("[]", 0), "does not begin with '{'");
  expect_refused(file_text(" {}", 0), "does not begin with '{'");
  expect_refused(file_text("{} {}", 0), "not valid JSON");
  expect_refused(file_text("{\"\xff\":1}", 0), "not valid JSON");
  expect_refused(file_text(kGoodHeader.substr(0, kGoodHeader.size() - 2), 8), "not valid JSON");
  expect_refused(file_text(kGoodHeader + std::string(3, '\0'), 8), "zero byte");
}

TEST(SafetensorsRead, DeepNestingDoesNotOverflowTheStack) {
  const std::string deep(100000, '[');
  expect_refused(file_text(deep, 0), "does not begin with '{'");
  expect_refused(file_text("{\"a\":" + deep, 0), "'a': its description is a list");
  expect_refused(file_text("{\"a\":{\"shape\":" + deep, 0), "'a': 'shape' holds a list");
  expect_refused(file_text("{\"a\":{\"extra\":" + deep, 0), "'extra' is nested too deeply");
}

TEST(SafetensorsRead, LegalOddFilesAreAccepted) {
  const std::string header = "{" + entry("a", "F32", "[2]", "[9,17]") + "," + entry("f", "F8_E4M3", "[2]", "[21,23]") +
                             "," + entry("b", "F32", "[2]", "[0,8]") + "," + entry("s", "F32", "[]", "[17,21]") + "," +
                             entry("z", "F32", "[0]", "[8,8]") + "," + entry("u", "U8", "[1]", "[8,9]") + "," +
                             entry("e", "BF16", "[0,64]", "[8,8]") + "}     ";
  const TestFolder folder;
  write_text_file(folder / "odd.safetensors", file_text(header, 23));
  const SafetensorsFile file(folder / "odd.safetensors");
  EXPECT_EQ(file.tensors().size(), 7u);
  const std::span<const std::byte> a = file.bytes("a");
  ASSERT_EQ(a.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(static_cast<std::size_t>(a[i]), 9 + i);
  const std::vector<float> copied = file.copy<float>("a", DType::kF32);
  EXPECT_EQ(std::memcmp(copied.data(), a.data(), 8), 0);
  EXPECT_TRUE(file.copy<float>("z", DType::kF32).empty());
  EXPECT_EQ(file.info("e").shape, (std::vector<std::int64_t>{0, 64}));
  EXPECT_EQ(file.info("s").num_elements(), 1);
  EXPECT_EQ(file.info("f").dtype, DType::kF8E4M3);
  EXPECT_USER_ERROR(file.copy<std::int32_t>("a", DType::kI32), "'a' has type F32", "must be I32");
  EXPECT_USER_ERROR(file.info("missing"), "odd.safetensors", "no tensor 'missing'");
}

TEST(SafetensorsRead, UnknownFieldsAndNoMetadataAreAccepted) {
  const TestFolder folder;
  const std::string header =
      "{\"__metadata__\":null,\"a\":{\"extra\":{\"x\":[1,{\"y\":2.5}]},\"dtype\":\"U8\",\"more\":-1,\"shape\":[1],"
      "\"data_offsets\":[0,1]}}";
  write_text_file(folder / "x", file_text(header, 1));
  EXPECT_TRUE(SafetensorsFile(folder / "x").has("a"));
  write_text_file(folder / "x", file_text("{}", 0));
  EXPECT_TRUE(SafetensorsFile(folder / "x").tensors().empty());
}

TEST(SafetensorsRead, EveryCutAndEveryFlippedByteIsAnErrorOrAFile) {
  const TestFolder folder;
  const std::string good = file_text("{\"__metadata__\":{\"k\":\"v\"}," + entry("a", "F32", "[2]", "[0,8]") + "}", 8);
  const auto try_to_read = [&](const std::string& text) {
    write_text_file(folder / "x", text);
    try {
      SafetensorsFile file(folder / "x");
      for (const auto& [name, info] : file.tensors()) EXPECT_EQ(file.bytes(name).size(), info.end - info.begin);
      return true;
    } catch (const UserError&) {
      return false;
    }
  };
  for (std::size_t size = 0; size < good.size(); size += 3) EXPECT_FALSE(try_to_read(good.substr(0, size))) << size;
  for (std::size_t at = 0; at < good.size(); at += 2) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x11);
    try_to_read(bad);
  }
}

TEST(SafetensorsWrite, ReadsBackInTheOrderGiven) {
  const TestFolder folder;
  std::vector<float> z(6);
  std::iota(z.begin(), z.end(), 0.5f);
  const std::vector<std::int64_t> a = {-1, std::int64_t{1} << 40};
  const std::vector<TensorToWrite> tensors = {{"z", DType::kF32, {2, 3}, std::as_bytes(std::span(z))},
                                              {"none", DType::kU8, {0}, {}},
                                              {"a", DType::kI64, {2}, std::as_bytes(std::span(a))}};
  write_safetensors(folder / "x.safetensors", tensors, {{"kind", "text \"quoted\"\n"}});
  const std::string text = read_text_file(folder / "x.safetensors");
  std::uint64_t length;
  std::memcpy(&length, text.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(text.size(), 8 + length + 24 + 16);
  EXPECT_LT(text.find("\"z\""), text.find("\"a\""));

  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_EQ(file.copy<float>("z", DType::kF32), z);
  EXPECT_EQ(file.copy<std::int64_t>("a", DType::kI64), a);
  EXPECT_EQ(file.info("z").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.info("z").begin, 0u);
  EXPECT_EQ(file.metadata().at("kind"), "text \"quoted\"\n");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"x.safetensors"});
}

TEST(SafetensorsWrite, AShortWriteLeavesTheOldFile) {
  const TestFolder folder;
  const std::vector<float> values(4096, 1.0f);
  const TensorToWrite tensor{"a", DType::kF32, {4096}, std::as_bytes(std::span(values))};
  write_text_file(folder / "x", "old");
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tight{1000, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &tight);
  EXPECT_USER_ERROR(write_safetensors(folder / "x", std::span(&tensor, 1), {}), (folder / "x").string(),
                    "File too large");
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(read_text_file(folder / "x"), "old");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"x"});
}

// Writes a model of two tensors in two shards with their index.
void write_shards(const fs::path& folder) {
  fs::create_directories(folder);
  const float value = 3;
  for (const std::string name : {"a", "b"}) {
    const TensorToWrite tensor{name, DType::kF32, {1}, std::as_bytes(std::span(&value, 1))};
    write_safetensors(folder / (name + ".safetensors"), std::span(&tensor, 1), {});
  }
  write_text_file(folder / "model.safetensors.index.json",
                  R"({"metadata":{},"weight_map":{"a":"a.safetensors","b":"b.safetensors"}})");
}

TEST(SafetensorsFolder, FindsTensorsInShardsAndInASingleFile) {
  const TestFolder folder;
  write_shards(folder / "shards");
  const SafetensorsFolder shards(folder / "shards");
  EXPECT_EQ(shards.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(shards.file_of("b").copy<float>("b", DType::kF32), std::vector<float>{3});
  EXPECT_USER_ERROR(shards.file_of("c"), "shards", "tensor 'c'");

  fs::create_directory(folder / "single");
  fs::rename(folder / "shards" / "a.safetensors", folder / "single" / "model.safetensors");
  const SafetensorsFolder single(folder / "single");
  EXPECT_TRUE(single.has("a"));
  EXPECT_FALSE(single.has("b"));
}

TEST(SafetensorsFolder, AMissingShardOrTensorIsNamed) {
  const TestFolder folder;
  EXPECT_USER_ERROR(SafetensorsFolder(folder.path()), folder.path().string(), "model.safetensors.index.json");
  write_shards(folder.path());
  fs::remove(folder / "b.safetensors");
  EXPECT_USER_ERROR(SafetensorsFolder(folder.path()), (folder / "b.safetensors").string(), "tensor 'b'");
  fs::copy_file(folder / "a.safetensors", folder / "b.safetensors");
  EXPECT_USER_ERROR(SafetensorsFolder(folder.path()), (folder / "b.safetensors").string(), "has no tensor 'b'");
}

TEST(SafetensorsFolder, LinksIntoAnotherFolderAreFollowed) {
  const TestFolder folder;
  write_shards(folder / "blobs");
  fs::create_directory(folder / "snapshot");
  for (const std::string& name : names_in(folder / "blobs"))
    fs::create_symlink("../blobs/" + name, folder / "snapshot" / name);
  EXPECT_EQ(SafetensorsFolder(folder / "snapshot").names().size(), 2u);
}

TEST(SafetensorsFolder, BadIndexesAreRefused) {
  const TestFolder folder;
  write_shards(folder.path());
  const auto refused = [&](const std::string& index, const std::string& part) {
    write_text_file(folder / "model.safetensors.index.json", index);
    EXPECT_USER_ERROR(SafetensorsFolder(folder.path()), folder.path().string(), part);
  };
  refused("{", "not valid JSON");
  refused(std::string(100000, '['), "not valid JSON");
  refused(std::string(100000, '[') + std::string(100000, ']'), "weight_map");
  refused("{}", "weight_map");
  refused(R"({"weight_map":{"a":1}})", "tensor 'a'");
  for (const char* name : {"", "..", "../a.safetensors", "/etc/passwd", "x\\u0000y"}) {
    refused(std::string(R"({"weight_map":{"a":")") + name + R"("}})", "tensor 'a' is not a plain name");
  }
}

TEST(SafetensorsRead, TheGoldenFilesAreRead) {
  const SafetensorsFile file(DRAFTSMITH_SOURCE_DIR "/tests/golden/single_document.safetensors");
  EXPECT_FALSE(file.tensors().empty());
}

}  // namespace
}  // namespace draftsmith
