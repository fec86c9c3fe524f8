// A cursor walks the mapped file; nothing is reserved before the bytes it needs are known to be there. The rules are
// llama.cpp's own, so that what passes here is loaded there.
#include "draftsmith/store/gguf.h"

#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>
#include <type_traits>

#include "draftsmith/base/check.h"
#include "draftsmith/base/strings.h"
#include "draftsmith/store/gguf_types.h"
#include "draftsmith/store/mapped_file.h"

namespace draftsmith {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they stand");

constexpr std::uint64_t kDefaultAlignment = 32, kLargestAlignment = 65536;
constexpr std::size_t kLongestTensorName = 63;  // ggml keeps names in 64 bytes
constexpr char kAlignmentKey[] = "general.alignment";

enum class KeyType : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kText, kArray, kU64, kI64, kF64 };

class Cursor {
 public:
  Cursor(const std::string& file, std::span<const std::byte> bytes) : file_(file), bytes_(bytes) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }
  const std::string& file() const { return file_; }

  template <class T, class... What>
  T number(const What&... what) {
    static_assert(std::is_arithmetic_v<T>);
    if (left() < sizeof(T)) ends_inside(what...);
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  template <class... What>
  std::string_view text(const What&... what) {
    const auto length = number<std::uint64_t>(what...);
    if (length > left()) {
      fail(file_, ": ", text_of(what...), " has a length of ", length, " bytes, but only ", left(),
           " are left in the file");
    }
    const std::string_view out(reinterpret_cast<const char*>(bytes_.data()) + at_, static_cast<std::size_t>(length));
    at_ += length;
    return out;
  }

  // Checks a count of things that need at least `least_bytes` each, and returns it.
  template <class... What>
  std::uint64_t count(std::uint64_t least_bytes, std::uint64_t counted, const What&... what) const {
    if (counted > left() / least_bytes) {
      fail(file_, ": it says that it holds ", counted, " ", text_of(what...), ", but only ", left(),
           " bytes are left in the file");
    }
    return counted;
  }

 private:
  template <class... What>
  [[noreturn]] void ends_inside(const What&... what) const {
    fail(file_, ": the file ends inside ", text_of(what...), " (a download that was cut short?)");
  }

  const std::string& file_;
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
};

template <class T>
std::int64_t read_integer(Cursor& cursor, const std::string& where) {
  const T value = cursor.number<T>(where);
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    require(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()), cursor.file(), ": ", where,
            ": the number ", value, " is too large");
  }
  return static_cast<std::int64_t>(value);
}

bool read_bool(Cursor& cursor, const std::string& where) {
  const auto value = cursor.number<std::uint8_t>(where);
  require(value <= 1, cursor.file(), ": ", where, ": ", int{value}, " is neither true nor false");
  return value == 1;
}

template <class Element, class ReadOne>
GgufValue read_list(Cursor& cursor, const std::string& where, std::uint64_t least_bytes, ReadOne read_one) {
  const auto counted = cursor.number<std::uint64_t>(where);
  cursor.count(least_bytes, counted, "elements in ", where);
  std::vector<Element> out;
  out.reserve(static_cast<std::size_t>(counted));
  for (std::uint64_t i = 0; i < counted; ++i) out.push_back(read_one());
  return out;
}

// Reads one value or a list of them; the same function reads each element.
GgufValue read_value(Cursor& cursor, const std::string& key) {
  const auto where = text_of("key ", shown(key));
  auto type = cursor.number<std::uint32_t>(where);
  const bool is_array = type == static_cast<std::uint32_t>(KeyType::kArray);
  if (is_array) type = cursor.number<std::uint32_t>(where);

  const auto finish = [&]<class Element>(std::type_identity<Element>, std::uint64_t least_bytes,
                                         auto read_one) -> GgufValue {
    if (is_array) return read_list<Element>(cursor, where, least_bytes, read_one);
    return GgufValue(read_one());
  };
  const auto integer = [&]<class T>(std::type_identity<T>) {
    return finish(std::type_identity<std::int64_t>(), sizeof(T), [&] { return read_integer<T>(cursor, where); });
  };
  switch (static_cast<KeyType>(type)) {
    case KeyType::kU8:
      return integer(std::type_identity<std::uint8_t>());
    case KeyType::kI8:
      return integer(std::type_identity<std::int8_t>());
    case KeyType::kU16:
      return integer(std::type_identity<std::uint16_t>());
    case KeyType::kI16:
      return integer(std::type_identity<std::int16_t>());
    case KeyType::kU32:
      return integer(std::type_identity<std::uint32_t>());
    case KeyType::kI32:
      return integer(std::type_identity<std::int32_t>());
    case KeyType::kU64:
      return integer(std::type_identity<std::uint64_t>());
    case KeyType::kI64:
      return integer(std::type_identity<std::int64_t>());
    case KeyType::kF32:
      return finish(std::type_identity<double>(), 4, [&] { return double{cursor.number<float>(where)}; });
    case KeyType::kF64:
      return finish(std::type_identity<double>(), 8, [&] { return cursor.number<double>(where); });
    case KeyType::kText:
      return finish(std::type_identity<std::string>(), 8, [&] { return std::string(cursor.text(where)); });
    case KeyType::kBool:
      if (is_array) {
        return read_list<std::int64_t>(cursor, where, 1, [&] { return std::int64_t{read_bool(cursor, where)}; });
      }
      return read_bool(cursor, where);
    case KeyType::kArray:
      fail(cursor.file(), ": ", where, ": lists of lists are not supported");
  }
  fail(cursor.file(), ": ", where, ": its type ", type, " is not known");
}

std::uint64_t checked_alignment(Cursor value_begin, const GgufValue& value) {
  const auto type = value_begin.number<std::uint32_t>(kAlignmentKey);
  require(type == static_cast<std::uint32_t>(KeyType::kU32), value_begin.file(), ": key '", kAlignmentKey,
          "' must be an unsigned 32-bit number");
  const auto alignment = static_cast<std::uint64_t>(std::get<std::int64_t>(value));
  require(std::has_single_bit(alignment) && alignment <= kLargestAlignment, value_begin.file(), ": key '",
          kAlignmentKey, "' is ", alignment, ", but it must be a power of two up to ", kLargestAlignment);
  return alignment;
}

void read_keys(Cursor& cursor, std::uint64_t num_keys, GgufFile& out, std::uint64_t& alignment) {
  for (std::uint64_t i = 0; i < num_keys; ++i) {
    const std::string key(cursor.text("key ", i));
    require(!key.empty(), cursor.file(), ": key ", i, " has an empty name");
    require(!out.keys.contains(key), cursor.file(), ": key ", shown(key), " appears twice");
    const Cursor value_begin = cursor;
    GgufValue value = read_value(cursor, key);
    if (key == kAlignmentKey) alignment = checked_alignment(value_begin, value);
    out.keys.emplace(key, std::move(value));
  }
}

void read_shape(Cursor& cursor, const std::string& where, GgufTensor& tensor) {
  const auto num_dims = cursor.number<std::uint32_t>(where);
  require(num_dims >= 1 && num_dims <= 4, cursor.file(), ": ", where, " has ", num_dims,
          " dimensions; 1 to 4 are possible");
  std::int64_t count = 1;
  for (std::uint32_t i = 0; i < num_dims; ++i) {
    const auto extent = cursor.number<std::int64_t>(where);
    require(extent > 0, cursor.file(), ": ", where, ": dimension ", i, " is ", extent, "; it must be positive");
    require(!__builtin_mul_overflow(count, extent, &count), cursor.file(), ": ", where, ": its shape is too large");
    tensor.shape.push_back(extent);
  }
}

GgufTensor read_tensor(Cursor& cursor, std::uint64_t index) {
  GgufTensor tensor;
  tensor.name = cursor.text("the name of tensor ", index);
  const std::string where = "tensor " + shown(tensor.name);
  require(!tensor.name.empty(), cursor.file(), ": tensor ", index, " has an empty name");
  require(tensor.name.size() <= kLongestTensorName, cursor.file(), ": ", where, ": the name is longer than ",
          kLongestTensorName, " bytes");
  read_shape(cursor, where, tensor);
  tensor.type = cursor.number<std::uint32_t>(where);
  const GgufType* type = find_gguf_type(tensor.type);
  require(type != nullptr, cursor.file(), ": ", where, ": its type ", tensor.type, " is not known");
  tensor.type_name = type->name;
  require(tensor.shape[0] % type->block_size == 0, cursor.file(), ": ", where, ": its rows have ", tensor.shape[0],
          " elements, but ", type->name, " stores blocks of ", type->block_size);
  std::uint64_t bytes = static_cast<std::uint64_t>(type->block_bytes);
  bool fits = !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(tensor.shape[0] / type->block_size), &bytes);
  for (std::size_t i = 1; i < tensor.shape.size(); ++i) {
    fits = fits && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(tensor.shape[i]), &bytes);
  }
  require(fits, cursor.file(), ": ", where, ": its shape is too large");
  tensor.num_bytes = bytes;
  tensor.offset = cursor.number<std::uint64_t>(where);  // still relative to the data section
  return tensor;
}

// Tensors follow one another in file order, each beginning at the next multiple of the alignment.
void place_tensors(const std::string& file, std::uint64_t file_size, std::uint64_t front_size, std::uint64_t alignment,
                   std::vector<GgufTensor>& tensors) {
  const auto aligned = [&](std::uint64_t x) { return (x + alignment - 1) / alignment * alignment; };
  const std::uint64_t data_begin = aligned(front_size);
  std::uint64_t expected = 0;
  for (GgufTensor& tensor : tensors) {
    const std::string where = text_of(file, ": tensor ", shown(tensor.name), ": ");
    require(tensor.offset % alignment == 0, where, "its offset ", tensor.offset, " is not a multiple of the alignment ",
            alignment);
    require(tensor.offset >= expected, where, "its bytes overlap those of the tensor before it");
    require(tensor.offset == expected, where, "it begins ", tensor.offset - expected,
            " bytes after the tensor before it ends");
    // data_begin + expected cannot overflow: both are at most one alignment past the size of a real file.
    const std::uint64_t begin = data_begin + expected;
    require(begin <= file_size && tensor.num_bytes <= file_size - begin, where, "its ", tensor.num_bytes, " bytes at ",
            begin, " lie past the end of the file (", file_size, " bytes; a download that was cut short?)");
    tensor.offset = begin;
    expected = aligned(expected + tensor.num_bytes);
  }
}

}  // namespace

const GgufTensor* GgufFile::find_tensor(const std::string& name) const {
  for (const GgufTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

std::optional<std::int64_t> GgufFile::integer(const std::string& key) const {
  const auto found = keys.find(key);
  if (found == keys.end()) return std::nullopt;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<double> GgufFile::number(const std::string& key) const {
  if (const std::optional<std::int64_t> whole = integer(key)) return static_cast<double>(*whole);
  const auto found = keys.find(key);
  if (found == keys.end()) return std::nullopt;
  const auto* value = std::get_if<double>(&found->second);
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<std::string> GgufFile::text(const std::string& key) const {
  const auto found = keys.find(key);
  if (found == keys.end()) return std::nullopt;
  const auto* value = std::get_if<std::string>(&found->second);
  return value ? std::optional(*value) : std::nullopt;
}

std::string GgufFile::architecture() const { return text("general.architecture").value_or(""); }

GgufFile read_gguf(const std::filesystem::path& path) {
  const std::string file = path.string();
  const MappedFile mapped(path);
  const std::span<const std::byte> bytes = mapped.bytes();
  if (bytes.size() < 4 || std::memcmp(bytes.data(), "GGUF", 4) != 0) {
    fail(file, " is not a GGUF file: it does not begin with 'GGUF'", wrong_file_hint(bytes));
  }
  Cursor cursor(file, bytes);
  cursor.number<std::uint32_t>("the magic number");
  GgufFile out;
  out.path = path;
  out.version = cursor.number<std::uint32_t>("the header");
  require(out.version == 2 || out.version == 3, file, ": GGUF version ", out.version,
          " is not supported; versions 2 and 3 are",
          (out.version & 0xffff) == 0 ? " (it seems to be a big-endian file)" : "");
  const auto num_tensors = cursor.number<std::uint64_t>("the header");
  const auto num_keys = cursor.number<std::uint64_t>("the header");
  cursor.count(8 + 1 + 4 + 1, num_keys, "keys");
  cursor.count(8 + 1 + 4 + 8 + 4 + 8, num_tensors, "tensors");

  std::uint64_t alignment = kDefaultAlignment;
  read_keys(cursor, num_keys, out, alignment);
  const std::int64_t num_splits = out.integer("split.count").value_or(1);
  require(num_splits <= 1, file, " is one of ", num_splits,
          " pieces of a model; merge them first: llama-gguf-split --merge ", file, " whole.gguf");
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < num_tensors; ++i) {
    out.tensors.push_back(read_tensor(cursor, i));
    const std::string& name = out.tensors.back().name;
    require(names.insert(name).second, file, ": tensor ", shown(name), ": the name appears twice");
  }
  place_tensors(file, bytes.size(), cursor.at(), alignment, out.tensors);
  return out;
}

}  // namespace draftsmith
