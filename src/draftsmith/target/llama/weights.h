// Reads weights of a GGUF file as plain numbers in fp32 or bf16, from every type that llama.cpp can decode. It reads
// what is asked for and keeps nothing.
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

// Decodes `bytes`, whole blocks of ggml type `type`, into `out`. Throws a UserError that names `tensor` when the type
// cannot be decoded or `out` is not whole blocks.
void dequantize(std::uint32_t type, std::span<const std::byte> bytes, std::span<float> out, const std::string& tensor);

inline const std::string kEmbeddingTensor = gguf_name({DecoderParam::kEmbedding});
inline const std::string kHeadTensor = gguf_name({DecoderParam::kHead});  // missing where it is tied to the embedding

class GgufWeights {
 public:
  explicit GgufWeights(const std::filesystem::path& file) : file_(read_gguf(file)) {}
  const GgufFile& file() const { return file_; }
  // Returns the name of the tensor that is the head.
  const std::string& head_name() const { return find(kHeadTensor) != nullptr ? kHeadTensor : kEmbeddingTensor; }
  const GgufTensor* find(const std::string& name) const { return file_.find_tensor(name); }  // null when missing
  // Decodes a tensor to fp32 or bf16 on all of ATen's threads; GGUF's ne[0] is the last dimension. Throws a UserError
  // when it is missing or cannot be decoded.
  at::Tensor read(const std::string& name, at::ScalarType dtype) const;

 private:
  GgufFile file_;
};

// Reorders the rows of a q or k projection [heads * head_dim, ...] (or its bias) from neighbours (2i, 2i+1) that rotate
// together to halves (i, i + rotated/2), as Hugging Face's rotate-half expects. Elements of a head beyond the first
// `rotated` stay.
at::Tensor neighbours_to_halves(const at::Tensor& rows, std::int64_t head_dim, std::int64_t rotated);

}  // namespace draftsmith
