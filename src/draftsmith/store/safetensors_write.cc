// The header is padded with spaces so that the data begins at a multiple of 8; tensors follow one another without
// padding, as the format demands.
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "draftsmith/base/check.h"
#include "draftsmith/store/safetensors.h"
#include "draftsmith/store/safetensors_header.h"
#include "draftsmith/store/whole_file.h"

namespace draftsmith {
namespace {

std::string header_of(std::span<const TensorToWrite> tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::set<std::string> seen;
  std::size_t end = 0;
  for (const TensorToWrite& tensor : tensors) {
    DRAFTSMITH_ASSERT(tensor.name != kMetadataKey && seen.insert(tensor.name).second);
    std::size_t bytes = size_of(tensor.dtype);
    for (std::int64_t extent : tensor.shape) bytes *= static_cast<std::size_t>(extent);
    DRAFTSMITH_ASSERT(bytes == tensor.bytes.size());
    header[tensor.name] = {
        {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  // Text that is not UTF-8 (a file name in the metadata) is stored with replacement characters: the format knows no
  // other text.
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(tensors, metadata);
  require(header.size() <= kLongestHeader, "cannot write ", file.string(), ": its header would be longer than ",
          kLongestHeader, " bytes");
  const std::uint64_t length = header.size();
  WholeFile out(file);
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(std::as_bytes(std::span(header)));
  for (const TensorToWrite& tensor : tensors) out.write(tensor.bytes);
  out.commit();
}

}  // namespace draftsmith
