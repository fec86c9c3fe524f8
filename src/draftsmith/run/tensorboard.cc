#include "draftsmith/run/tensorboard.h"

#include <array>
#include <bit>
#include <chrono>
#include <system_error>

#include "draftsmith/base/check.h"

namespace draftsmith {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0x82f63b78u : 0u);  // Castagnoli, reflected
    table[i] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kCrcTable = crc_table();

template <class Integer>
std::string little_endian(Integer value) {
  std::string out;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out += static_cast<char>(value);
}

std::string key(int field, int wire_type) { return varint(static_cast<std::uint64_t>(field << 3 | wire_type)); }
std::string bytes_field(int field, std::string_view bytes) {
  return key(field, 2) + varint(bytes.size()) + std::string(bytes);
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string event_start() { return key(1, 1) + little_endian(std::bit_cast<std::uint64_t>(wall_time())); }
std::string step_field(std::int64_t step) { return key(2, 0) + varint(static_cast<std::uint64_t>(step)); }

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const char c : bytes) crc = kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

EventWriter::EventWriter(const std::filesystem::path& folder, std::int64_t first_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, "cannot make the folder ", folder.string(), ": ", error.message());
  const std::string stem = text_of("events.out.tfevents.", static_cast<std::int64_t>(wall_time()), ".draftsmith");
  for (int i = 0; file_.empty() || std::filesystem::exists(file_); ++i) file_ = folder / text_of(stem, '.', i);
  out_.open(file_, std::ios::binary);
  write_event(event_start() + bytes_field(3, "brain.Event:2"));
  if (first_step > 0)
    write_event(event_start() + step_field(first_step) + bytes_field(7, key(1, 0) + varint(1)));  // START
}

void EventWriter::add(std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    const std::string number = little_endian(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    summary += bytes_field(1, bytes_field(1, tag) + key(2, 5) + number);
  }
  write_event(event_start() + step_field(step) + bytes_field(5, summary));
}

void EventWriter::write_event(const std::string& event) {
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  out_ << length << little_endian(masked_crc32c(length)) << event << little_endian(masked_crc32c(event)) << std::flush;
  require(out_.good(), "cannot write ", file_.string(), "; is the disk full?");
}

}  // namespace draftsmith
