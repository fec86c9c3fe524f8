// Weights are decoded by ggml's own type table, blocks of rows in parallel. They are read with pread, so that a file
// that shrinks meanwhile is an error message and not a signal.
#include "draftsmith/target/llama/weights.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <ggml.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "draftsmith/base/check.h"
#include "draftsmith/target/llama/load.h"

namespace draftsmith {
namespace {

class ReadOnlyFile {
 public:
  explicit ReadOnlyFile(const std::filesystem::path& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    require(descriptor_ >= 0, path.string(), ": cannot be read: ", std::strerror(errno));
  }
  ~ReadOnlyFile() { ::close(descriptor_); }
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;

  void read(std::uint64_t offset, std::span<std::byte> to) const {
    while (!to.empty()) {
      const ssize_t got = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      require(got > 0, path_.string(), ": cannot be read: ", got == 0 ? "it became shorter" : std::strerror(errno));
      offset += static_cast<std::uint64_t>(got);
      to = to.subspan(static_cast<std::size_t>(got));
    }
  }

 private:
  std::filesystem::path path_;
  int descriptor_;
};

std::vector<std::int64_t> torch_shape(const GgufTensor& tensor) { return {tensor.shape.rbegin(), tensor.shape.rend()}; }

}  // namespace

void dequantize(std::uint32_t type, std::span<const std::byte> bytes, std::span<float> out, const std::string& tensor) {
  require(type < static_cast<std::uint32_t>(GGML_TYPE_COUNT), tensor, ": its type (ggml type ", type, ") is not known");
  const auto ggml = static_cast<ggml_type>(type);
  const ggml_type_traits* traits = ggml_get_type_traits(ggml);
  const bool is_f32 = ggml == GGML_TYPE_F32;
  require(traits->type_size > 0 && (is_f32 || traits->to_float != nullptr), tensor, ": a tensor of type ",
          traits->type_name == nullptr ? "?" : traits->type_name, " cannot be used as a weight");
  const auto block = static_cast<std::size_t>(traits->blck_size);
  require(out.size() % block == 0, tensor, ": a row of ", out.size(), " numbers is not a whole number of ",
          traits->type_name, " blocks of ", block);
  DRAFTSMITH_ASSERT(bytes.size() == out.size() / block * traits->type_size);
  if (is_f32) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
  } else {
    traits->to_float(bytes.data(), out.data(), static_cast<std::int64_t>(out.size()));
  }
}

at::Tensor GgufWeights::read(const std::string& name, at::ScalarType dtype) const {
  const GgufTensor* found = find(name);
  require(found != nullptr, file_.path.string(), ": has no tensor named ", name);
  const GgufTensor& tensor = *found;
  const ReadOnlyFile file(file_.path);

  at::Tensor out = at::empty(torch_shape(tensor), at::TensorOptions().dtype(dtype));
  const std::int64_t width = tensor.shape[0], num_rows = width == 0 ? 0 : out.numel() / width;
  if (num_rows == 0) return out;
  const std::uint64_t row_bytes = tensor.num_bytes / static_cast<std::uint64_t>(num_rows);
  const at::Tensor flat = out.view({num_rows, width});
  // A chunk is about a megabyte of numbers, big enough to read well and small enough to stay in the cache.
  const std::int64_t chunk = std::max<std::int64_t>(1, (1 << 18) / width);
  at::parallel_for(0, (num_rows + chunk - 1) / chunk, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::byte> bytes;
    std::vector<float> numbers;
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t first = c * chunk, rows = std::min(chunk, num_rows - first);
      bytes.resize(row_bytes * static_cast<std::uint64_t>(rows));
      numbers.resize(static_cast<std::size_t>(rows * width));
      file.read(tensor.offset + row_bytes * static_cast<std::uint64_t>(first), bytes);
      dequantize(tensor.type, bytes, numbers, file_.path.string() + ": tensor " + name);
      if (dtype == at::kFloat) {
        std::memcpy(flat.data_ptr<float>() + first * width, numbers.data(), numbers.size() * sizeof(float));
      } else {
        std::copy(numbers.begin(), numbers.end(), flat.data_ptr<at::BFloat16>() + first * width);
      }
    }
  });
  return out;
}

TargetHead read_gguf_head(const std::filesystem::path& file) {
  const GgufWeights weights(file);
  return {.tensor = weights.head_name(), .rows = weights.read(weights.head_name(), at::kFloat)};
}

at::Tensor neighbours_to_halves(const at::Tensor& rows, std::int64_t head_dim, std::int64_t rotated) {
  DRAFTSMITH_ASSERT(rows.size(0) % head_dim == 0 && rotated % 2 == 0 && rotated <= head_dim);
  const at::Tensor heads = rows.reshape({rows.size(0) / head_dim, head_dim, -1});
  const std::int64_t num_heads = heads.size(0), width = heads.size(2);
  const at::Tensor turned = heads.narrow(1, 0, rotated)
                                .reshape({num_heads, rotated / 2, 2, width})
                                .transpose(1, 2)
                                .reshape({num_heads, rotated, width});
  return at::cat({turned, heads.narrow(1, rotated, head_dim - rotated)}, 1).reshape(rows.sizes()).contiguous();
}

}  // namespace draftsmith
