// An event file is read back byte by byte: both checksums of each record, then steps, tags and values.
#include "draftsmith/run/tensorboard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <sstream>
#include <vector>

namespace draftsmith {
namespace {

struct Event {
  std::int64_t step = 0;
  std::string version;
  bool session_start = false;
  std::map<std::string, float> scalars;
};

struct Reader {
  std::string_view bytes;
  std::size_t at = 0;
  bool done() const { return at >= bytes.size(); }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, bytes.substr(at, sizeof(T)).data(), sizeof(T));
    at += sizeof(T);
    return value;
  }
  std::string_view chunk() {
    const std::size_t size = varint();
    at += size;
    return bytes.substr(at - size, size);
  }
};

void read_summary(std::string_view bytes, Event& event) {
  for (Reader summary{bytes}; !summary.done();) {
    EXPECT_EQ(summary.varint(), 1u << 3 | 2u);
    Reader value{summary.chunk()};
    EXPECT_EQ(value.varint(), 1u << 3 | 2u);
    const std::string tag(value.chunk());
    EXPECT_EQ(value.varint(), 2u << 3 | 5u);
    event.scalars[tag] = value.fixed<float>();
    EXPECT_TRUE(value.done());
  }
}

Event read_event(std::string_view bytes) {
  Event event;
  for (Reader reader{bytes}; !reader.done();) {
    const std::uint64_t key = reader.varint();
    if (key == (1u << 3 | 1u))
      EXPECT_GT(reader.fixed<double>(), 1e9);
    else if (key == (2u << 3 | 0u))
      event.step = static_cast<std::int64_t>(reader.varint());
    else if (key == (3u << 3 | 2u))
      event.version = reader.chunk();
    else if (key == (5u << 3 | 2u))
      read_summary(reader.chunk(), event);
    else if (key == (7u << 3 | 2u))
      event.session_start = reader.chunk() == "\x08\x01";
    else
      ADD_FAILURE() << "unknown field key " << key;
  }
  return event;
}

std::vector<Event> read_events(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::vector<Event> events;
  for (Reader reader{bytes}; !reader.done();) {
    const std::string_view length_bytes = std::string_view(bytes).substr(reader.at, 8);
    const auto length = reader.fixed<std::uint64_t>();
    EXPECT_EQ(reader.fixed<std::uint32_t>(), masked_crc32c(length_bytes));
    const std::string_view event = std::string_view(bytes).substr(reader.at, length);
    reader.at += length;
    EXPECT_EQ(reader.fixed<std::uint32_t>(), masked_crc32c(event));
    events.push_back(read_event(event));
  }
  return events;
}

struct TensorBoard : testing::Test {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / ("ds_events_" + std::to_string(getpid()));
  ~TensorBoard() override { std::filesystem::remove_all(folder); }
};

TEST_F(TensorBoard, ChecksumsAreThePublishedOnes) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
}

TEST_F(TensorBoard, WhatIsWrittenIsReadBack) {
  EventWriter writer(folder, 0);
  const std::vector<EventWriter::Scalar> first = {{"train/loss", 4.25}, {"train/accuracy", 0.125}};
  const std::vector<EventWriter::Scalar> second = {{"train/loss", -1.5}};
  writer.add(10, first);
  writer.add(300, second);
  const std::vector<Event> events = read_events(writer.file());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[1].step, 10);
  EXPECT_EQ(events[1].scalars, (std::map<std::string, float>{{"train/loss", 4.25f}, {"train/accuracy", 0.125f}}));
  EXPECT_EQ(events[2].step, 300);
  EXPECT_EQ(events[2].scalars, (std::map<std::string, float>{{"train/loss", -1.5f}}));
}

TEST_F(TensorBoard, AResumedRunWritesItsOwnFileAndSaysWhereItBegins) {
  EventWriter first(folder, 0), second(folder, 14);
  EXPECT_NE(first.file(), second.file());
  EXPECT_TRUE(second.file().filename().string().starts_with("events.out.tfevents."));
  const std::vector<Event> events = read_events(second.file());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(events[1].session_start);
  EXPECT_EQ(events[1].step, 14);
}

}  // namespace
}  // namespace draftsmith
