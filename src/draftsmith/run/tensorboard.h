// TensorBoard event files: records of length, masked CRC32C of the length, protobuf Event, masked CRC32C of the Event.
// Only scalars, hand-encoded: Event {1: wall_time double, 2: step varint, 3: file_version, 5: Summary {1: Value {1:
// tag, 2: float}}}.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace draftsmith {

std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

class EventWriter {
 public:
  using Scalar = std::pair<std::string, double>;

  // A new events.out.tfevents.* in `folder` (made if missing). first_step > 0 tells TensorBoard to forget what earlier
  // files say of that step and later ones: the run was resumed there.
  EventWriter(const std::filesystem::path& folder, std::int64_t first_step);
  void add(std::int64_t step, std::span<const Scalar> scalars);
  const std::filesystem::path& file() const { return file_; }

 private:
  void write_event(const std::string& event);
  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace draftsmith
