// Tests single blocks of the common quantised types, with values worked out from the formats' definitions, and the
// order of q and k rows.
#include "draftsmith/target/llama/weights.h"

#include <ATen/ops/arange.h>
#include <ggml.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "draftsmith/store/test_folder.h"

namespace draftsmith {
namespace {

class Block {
 public:
  Block& half(float value) {
    const ggml_fp16_t bits = ggml_fp32_to_fp16(value);
    return raw(&bits, sizeof(bits));
  }
  Block& bytes(std::size_t count, const std::function<int(int)>& byte_at) {
    for (std::size_t i = 0; i < count; ++i)
      bytes_.push_back(static_cast<std::byte>(byte_at(static_cast<int>(i)) & 255));
    return *this;
  }
  std::vector<float> decode(ggml_type type, std::size_t count) const {
    std::vector<float> out(count);
    dequantize(static_cast<std::uint32_t>(type), bytes_, out, "t");
    return out;
  }

 private:
  Block& raw(const void* from, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), begin, begin + size);
    return *this;
  }
  std::vector<std::byte> bytes_;
};

int nibbles(int i) { return i + 16 * (15 - i); }

TEST(Dequantize, Q4_0) {
  const std::vector<float> x = Block().half(0.5f).bytes(16, nibbles).decode(GGML_TYPE_Q4_0, 32);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(x[i], -4 + 0.5f * static_cast<float>(i));
    EXPECT_EQ(x[16 + i], 3.5f - 0.5f * static_cast<float>(i));
  }
}

TEST(Dequantize, Q4_1) {
  const std::vector<float> x = Block().half(0.5f).half(-3).bytes(16, nibbles).decode(GGML_TYPE_Q4_1, 32);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(x[i], -3 + 0.5f * static_cast<float>(i));
    EXPECT_EQ(x[16 + i], 4.5f - 0.5f * static_cast<float>(i));
  }
}

TEST(Dequantize, Q5_1) {
  const std::vector<float> x = Block()
                                   .half(0.5f)
                                   .half(-3)
                                   .bytes(4, [](int i) { return i < 2 ? 0 : 255; })
                                   .bytes(16, nibbles)
                                   .decode(GGML_TYPE_Q5_1, 32);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(x[i], -3 + 0.5f * static_cast<float>(i));
    EXPECT_EQ(x[16 + i], 12.5f - 0.5f * static_cast<float>(i));
  }
}

const std::vector<std::size_t> kPlaces = {0, 1, 31, 63, 64, 127, 160, 255};

TEST(Dequantize, Q4_K) {
  const std::vector<float> x = Block()
                                   .half(0.01f)
                                   .half(0.02f)
                                   .bytes(12, [](int i) { return i + 1; })
                                   .bytes(128, [](int i) { return 7 * i; })
                                   .decode(GGML_TYPE_Q4_K, 256);
  const std::vector<float> expected = {-.100021f, -.030006f, -.010002f, .14003f,
                                       -.14003f,  .28006f,   1.200256f, .840179f};
  for (std::size_t i = 0; i < kPlaces.size(); ++i) EXPECT_NEAR(x[kPlaces[i]], expected[i], 2e-6) << kPlaces[i];
  EXPECT_NEAR(std::accumulate(x.begin(), x.end(), 0.0), 105.2225, 1e-4);
}

TEST(Dequantize, Q6_K) {
  const std::vector<float> x = Block()
                                   .bytes(128, [](int i) { return 5 * i; })
                                   .bytes(64, [](int i) { return 11 * i; })
                                   .bytes(16, [](int i) { return i - 8; })
                                   .half(0.01f)
                                   .decode(GGML_TYPE_Q6_K, 256);
  const std::vector<float> expected = {2.560547f, -1.680359f, .350075f,  .250053f,
                                       1.280273f, .130028f,   -.640137f, .490105f};
  for (std::size_t i = 0; i < kPlaces.size(); ++i) EXPECT_NEAR(x[kPlaces[i]], expected[i], 2e-6) << kPlaces[i];
  EXPECT_NEAR(std::accumulate(x.begin(), x.end(), 0.0), 8.0817, 1e-4);
}

TEST(Dequantize, PlainTypesAreExact) {
  EXPECT_EQ(Block().half(0.5f).half(-3).decode(GGML_TYPE_F16, 2), (std::vector<float>{0.5f, -3.0f}));
  const auto bf16 = [](int i) { return std::vector<int>{0x00, 0x3f, 0x40, 0xc0}[static_cast<std::size_t>(i)]; };
  EXPECT_EQ(Block().bytes(4, bf16).decode(GGML_TYPE_BF16, 2), (std::vector<float>{0.5f, -3.0f}));
  const auto f32 = [](int i) { return std::vector<int>{0, 0, 0x40, 0xc0}[static_cast<std::size_t>(i)]; };
  EXPECT_EQ(Block().bytes(4, f32).decode(GGML_TYPE_F32, 1), (std::vector<float>{-3.0f}));
}

TEST(Dequantize, UnknownAndUnfitTypesAreRefusedByTensorName) {
  std::vector<std::byte> bytes(4096);
  std::vector<float> out(8);
  EXPECT_USER_ERROR(dequantize(4242, bytes, out, "blk.0.attn_q.weight"),
                    "blk.0.attn_q.weight: its type (ggml type 4242)", "");
  EXPECT_USER_ERROR(dequantize(4, bytes, out, "a"), "a: ", "");  // a type number no longer in use
  EXPECT_USER_ERROR(dequantize(GGML_TYPE_I32, bytes, out, "a"), "cannot be used as a weight", "");
  EXPECT_USER_ERROR(dequantize(GGML_TYPE_Q6_K, bytes, out, "a"),
                    "a row of 8 numbers is not a whole number of q6_K blocks", "");
}

// There are three heads of 8: a llama GGUF stores Hugging Face's rows 0 .. 23 as 0 4 1 5 2 6 3 7 8 12 9 13 ...
TEST(RowOrder, NeighboursBecomeHalves) {
  const std::vector<std::int64_t> stored = {0, 4, 1, 5, 2, 6, 3, 7};
  at::Tensor rows = at::arange(24, at::kFloat).reshape({24, 1}).repeat({1, 3});
  for (std::int64_t i = 0; i < 24; ++i) rows[i].fill_(i - i % 8 + stored[static_cast<std::size_t>(i % 8)]);
  const at::Tensor halves = neighbours_to_halves(rows, 8, 8);
  EXPECT_TRUE(halves.equal(at::arange(24, at::kFloat).reshape({24, 1}).repeat({1, 3})));
  const at::Tensor bias = rows.select(1, 0).contiguous();
  EXPECT_TRUE(neighbours_to_halves(bias, 8, 8).equal(at::arange(24, at::kFloat)));
}

TEST(RowOrder, ElementsThatDoNotRotateStay) {
  const at::Tensor rows = at::arange(8, at::kFloat);
  const at::Tensor halves = neighbours_to_halves(rows, 8, 4);
  const float expected[] = {0, 2, 1, 3, 4, 5, 6, 7};
  EXPECT_EQ(std::memcmp(halves.data_ptr<float>(), expected, sizeof(expected)), 0);
}

}  // namespace
}  // namespace draftsmith
