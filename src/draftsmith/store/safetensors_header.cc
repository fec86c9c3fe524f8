// Reads the JSON as a stream of events, straight into the maps. Without a tree, its depth and size cost no more than
// the entries it holds, and a repeated key is noticed.
#include "draftsmith/store/safetensors_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "draftsmith/base/check.h"
#include "draftsmith/base/strings.h"
#include "draftsmith/store/mapped_file.h"

namespace draftsmith {
namespace {

using nlohmann::json;

class HeaderEvents : public json::json_sax_t {
 public:
  HeaderEvents(const std::string& file, SafetensorsHeader& out) : file_(file), out_(out) {}

  bool start_object(std::size_t) override {
    if (skipping()) return enter_skipped();
    if (place_ == Place::kStart) return go(Place::kTop);
    if (place_ == Place::kEntry && name_ == kMetadataKey) return go(Place::kMetadata);
    if (place_ == Place::kEntry) return go(Place::kTensor);
    return bad_value("an object");
  }

  bool end_object() override {
    if (skipping()) return leave_skipped();
    if (place_ == Place::kTensor) finish_tensor();
    return go(place_ == Place::kTop ? Place::kEnd : Place::kTop);
  }

  bool key(std::string& text) override {
    if (skipping()) return true;
    if (place_ == Place::kTop) {
      name_ = text;
      info_ = {};
      fields_.clear();
      offsets_.clear();
      require(name_ != kMetadataKey || !std::exchange(seen_metadata_, true), file_,
              ": __metadata__ appears twice in the header");
      return go(Place::kEntry);
    }
    field_ = text;
    if (place_ == Place::kMetadata) {
      require(!out_.metadata.contains(field_), file_, ": key ", shown(field_), " appears twice in __metadata__");
      return true;
    }
    require(fields_.insert(field_).second, where(), shown(field_), " appears twice");
    skip_next_ = field_ != "dtype" && field_ != "shape" && field_ != "data_offsets";  // later versions may add fields
    return true;
  }

  bool start_array(std::size_t) override {
    if (skipping()) return enter_skipped();
    if (place_ == Place::kTensor && field_ != "dtype") return go(Place::kNumbers);
    return bad_value("a list");
  }

  bool end_array() override { return skipping() ? leave_skipped() : go(Place::kTensor); }

  bool string(std::string& text) override {
    if (skip_scalar()) return true;
    if (place_ == Place::kMetadata) return out_.metadata.emplace(field_, text), true;
    if (place_ != Place::kTensor || field_ != "dtype") return bad_value("text");
    const std::optional<DType> dtype = dtype_from_name(text);
    require(dtype.has_value(), where(), "its type ", shown(text), " is not known");
    info_.dtype = *dtype;
    return true;
  }

  bool number_unsigned(std::uint64_t number) override {
    if (skip_scalar()) return true;
    if (place_ != Place::kNumbers) return bad_value("a number");
    require(number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()), where(), "the number ",
            number, " in '", field_, "' is too large");
    if (field_ == "shape") return info_.shape.push_back(static_cast<std::int64_t>(number)), true;
    return offsets_.push_back(static_cast<std::size_t>(number)), true;
  }

  bool number_integer(std::int64_t) override { return skip_scalar() || bad_value("a negative number"); }
  bool number_float(double, const std::string&) override {
    return skip_scalar() || bad_value("a number that is not whole");
  }
  bool boolean(bool) override { return skip_scalar() || bad_value("true or false"); }
  bool binary(json::binary_t&) override { return bad_value("binary data"); }
  bool null() override {
    if (skip_scalar()) return true;
    if (place_ == Place::kEntry && name_ == kMetadataKey) return go(Place::kTop);
    return bad_value("null");
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(file_, ": the header is not valid JSON at its byte ", position,
         "; the file is damaged or not a safetensors file");
  }

 private:
  // The next event comes before everything, between entries, after an entry's name, in a tensor's entry, in a list of
  // numbers there, in the metadata, or after the end.
  enum class Place { kStart, kTop, kEntry, kTensor, kNumbers, kMetadata, kEnd };

  bool go(Place place) { return place_ = place, true; }
  std::string where() const { return text_of(file_, ": tensor ", shown(name_), ": "); }

  [[noreturn]] bool bad_value(const char* found) {
    if (place_ == Place::kStart) fail(file_, ": the header is ", found, ", not an object");
    if (place_ == Place::kMetadata || name_ == kMetadataKey) {
      fail(file_, ": __metadata__ must hold text only, but ", place_ == Place::kMetadata ? shown(field_) : "it", " is ",
           found);
    }
    if (place_ == Place::kEntry) fail(where(), "its description is ", found, ", not an object");
    fail(where(), shown(field_), " holds ", found);
  }

  // Values of unknown fields are skipped, down to a depth that no honest writer needs.
  bool skipping() const { return skip_next_ || skip_depth_ > 0; }
  bool enter_skipped() {
    skip_next_ = false;
    require(++skip_depth_ < 32, where(), shown(field_), " is nested too deeply");
    return true;
  }
  bool leave_skipped() { return --skip_depth_, true; }
  bool skip_scalar() {
    const bool skip = skipping();
    skip_next_ = false;
    return skip;
  }

  void finish_tensor() {
    for (const char* field : {"dtype", "shape", "data_offsets"})
      require(fields_.contains(field), where(), "'", field, "' is missing");
    require(offsets_.size() == 2, where(), "'data_offsets' must hold two numbers, not ", offsets_.size());
    info_.begin = offsets_[0];
    info_.end = offsets_[1];
    require(info_.begin <= info_.end, where(), "its bytes end before they begin (", info_.begin, " to ", info_.end,
            ")");
    require(out_.tensors.emplace(name_, info_).second, where(), "the name appears twice in the header");
  }

  const std::string& file_;
  SafetensorsHeader& out_;
  Place place_ = Place::kStart;
  std::string name_, field_;
  TensorInfo info_;
  std::set<std::string> fields_;
  std::vector<std::size_t> offsets_;
  bool seen_metadata_ = false, skip_next_ = false;
  int skip_depth_ = 0;
};

std::optional<std::size_t> bytes_of_shape(const TensorInfo& info) {
  std::size_t bytes = size_of(info.dtype);
  for (std::int64_t extent : info.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) return std::nullopt;
  }
  return bytes;
}

// Refuses tensors that do not fill the data from 0 to its end, without overlap or gap.
void check_layout(const std::string& file, const std::map<std::string, TensorInfo>& tensors,
                  std::size_t num_data_bytes) {
  std::vector<const std::pair<const std::string, TensorInfo>*> in_order;
  for (const auto& entry : tensors) {
    const auto& [name, info] = entry;
    const std::optional<std::size_t> bytes = bytes_of_shape(info);
    require(bytes.has_value(), file, ": tensor ", shown(name), ": its shape is too large");
    require(*bytes == info.end - info.begin, file, ": tensor ", shown(name), ": its shape and type need ", *bytes,
            " bytes, but it has ", info.end - info.begin);
    in_order.push_back(&entry);
  }
  std::sort(in_order.begin(), in_order.end(), [](const auto* x, const auto* y) {
    return std::pair(x->second.begin, x->second.end) < std::pair(y->second.begin, y->second.end);
  });
  std::size_t end = 0;
  for (const auto* entry : in_order) {
    const auto& [name, info] = *entry;
    require(info.begin >= end, file, ": tensor ", shown(name), ": its bytes overlap those of another tensor");
    require(info.begin == end, file, ": tensor ", shown(name), ": ", info.begin - end,
            " bytes before it belong to no tensor");
    require(info.end <= num_data_bytes, file, ": tensor ", shown(name), ": it ends at byte ", info.end,
            " of the data, but the file holds only ", num_data_bytes, " (a download that was cut short?)");
    end = info.end;
  }
  require(end == num_data_bytes, file, ": ", num_data_bytes - end, " bytes at its end belong to no tensor");
}

}  // namespace

SafetensorsHeader read_safetensors_header(const std::string& file, std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little, "numbers are read as they stand");
  const auto not_one = [&](const auto&... why) {
    fail(file, " is not a safetensors file: ", why..., wrong_file_hint(bytes));
  };
  if (bytes.size() < 8) not_one("it has only ", bytes.size(), " bytes");
  std::uint64_t length;
  std::memcpy(&length, bytes.data(), 8);
  if (length > kLongestHeader)
    not_one("it says its header has ", length, " bytes, but at most ", kLongestHeader, " are allowed");
  if (length > bytes.size() - 8) not_one("it says its header has ", length, " bytes, but the file has ", bytes.size());

  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + 8, static_cast<std::size_t>(length));
  if (!header.starts_with('{')) not_one("its header does not begin with '{'");
  // The parser would take a zero byte for the end of the text.
  require(header.find('\0') == std::string_view::npos, file, ": the header is not valid JSON: it holds a zero byte");
  SafetensorsHeader out;
  out.data_begin = 8 + header.size();
  HeaderEvents events(file, out);
  json::sax_parse(header.begin(), header.end(), &events);
  check_layout(file, out.tensors, bytes.size() - out.data_begin);
  return out;
}

}  // namespace draftsmith
