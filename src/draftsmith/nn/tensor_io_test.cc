#include "draftsmith/nn/tensor_io.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "draftsmith/base/check.h"
#include "draftsmith/nn/test_random.h"

namespace draftsmith {
namespace {

TEST(TensorIo, WhatIsWrittenIsRead) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "draftsmith_tensor_io.safetensors";
  Rng rng(1, RngPurpose::kTest);
  const at::Tensor a = random_tensor(rng, {3, 5}), b = a.to(at::kBFloat16), c = a.to(at::kHalf),
                   d = at::tensor({7, -9});
  write_safetensors(
      file,
      std::vector{tensor_to_write("a", a), tensor_to_write("b", b), tensor_to_write("c", c), tensor_to_write("d", d)},
      {});
  {
    const SafetensorsFile in(file);
    EXPECT_TRUE(tensor_from_safetensors(in, "a").equal(a));
    EXPECT_TRUE(tensor_from_safetensors(in, "b").equal(b));
    EXPECT_TRUE(tensor_from_safetensors(in, "c").equal(c));
    EXPECT_TRUE(tensor_from_safetensors(in, "d").equal(d));
    EXPECT_TRUE(float_tensor_from_safetensors(in, "b", {3, 5}).equal(b.to(at::kFloat)));
    EXPECT_TRUE(float_tensor_from_safetensors(in, "c", {3, 5}).equal(c.to(at::kFloat)));
    EXPECT_THROW(float_tensor_from_safetensors(in, "d", {2}), UserError);
    try {
      float_tensor_from_safetensors(in, "a", {5, 3});
      FAIL();
    } catch (const UserError& error) {
      EXPECT_EQ(error.what(), file.string() + ": tensor 'a' is 3 x 5, expected 5 x 3");
    }
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace draftsmith
