// Weights of a GGUF file as plain numbers: every type llama.cpp can decode, fp32 or bf16. Reads what is asked for,
// keeps nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "draftsmith/model/layer_names.h"
#include "draftsmith/store/gguf.h"

namespace draftsmith {

// `count` elements, whole blocks of ggml type `type`, from `bytes`. UserError naming `tensor` when the type is no
// number type that can be decoded or `count` is not whole blocks.
void dequantize(std::uint32_t type, std::span<const std::byte> bytes, std::span<float> out, const std::string& tensor);

inline const std::string kEmbeddingTensor = gguf_name({DecoderParam::kEmbedding});
inline const std::string kHeadTensor = gguf_name({DecoderParam::kHead});  // missing where it is tied to the embedding

class GgufWeights {
 public:
  explicit GgufWeights(const std::filesystem::path& file) : file_(read_gguf(file)) {}
  const GgufFile& file() const { return file_; }
  // Which tensor the head is.
  const std::string& head_name() const { return find(kHeadTensor) != nullptr ? kHeadTensor : kEmbeddingTensor; }
  const GgufTensor* find(const std::string& name) const { return file_.find_tensor(name); }  // null when missing
  // The tensor with its rows (GGUF's ne[0] is the last dimension), decoded by all of ATen's threads.
  at::Tensor read(const std::string& name, at::ScalarType dtype) const;

 private:
  GgufFile file_;
};

// Rows of one q or k projection (or its bias) whose engine rotates neighbours (2i, 2i+1), put so that it rotates halves
// (i, i + rotated/2): what Hugging Face's rotate-half expects. Elements of a head beyond the first `rotated` stay.
at::Tensor neighbours_to_halves(const at::Tensor& rows, std::int64_t head_dim, std::int64_t rotated);

}  // namespace draftsmith
