// Reads TensorBoard's event files, independently of the code under test: written from the
// descriptions of the formats, with a CRC that goes bit by bit.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/check.h"
#include "tests/common/io/test_files.h"

namespace ladder {

// One field of a message: a varint or the bits of a number, or the bytes of a text or message.
struct WireField {
  uint64_t number = 0, bits = 0;
  std::string bytes;
};

// The fields of a message in protocol buffers' wire format.
inline std::vector<WireField> fields_of(const std::string& message) {
  size_t at = 0;
  const auto byte = [&] {
    if (at == message.size()) fail("a message is cut off");
    return static_cast<uint64_t>(static_cast<unsigned char>(message[at++]));
  };
  const auto varint = [&] {
    uint64_t value = 0, part = 0x80;
    for (int shift = 0; part >= 0x80; shift += 7) value |= ((part = byte()) % 0x80) << shift;
    return value;
  };
  const auto fixed = [&](int size) {
    uint64_t value = 0;
    for (int i = 0; i < size; ++i) value |= byte() << (8 * i);
    return value;
  };
  std::vector<WireField> fields;
  while (at < message.size()) {
    const uint64_t key = varint();
    WireField field{key >> 3, 0, ""};
    if ((key & 7) == 0) field.bits = varint();
    if ((key & 7) == 1) field.bits = fixed(8);
    if ((key & 7) == 5) field.bits = fixed(4);
    if ((key & 7) == 2) {
      for (uint64_t left = varint(); left > 0; --left) field.bytes += static_cast<char>(byte());
    }
    if ((key & 7) == 3 || (key & 7) == 4 || (key & 7) > 5) fail("no such wire type");
    fields.push_back(field);
  }
  return fields;
}

// The only field with this number; an empty one if there is none.
inline WireField only_field(const std::string& message, uint64_t number) {
  WireField found;
  for (const WireField& field : fields_of(message)) {
    if (field.number == number && found.number != 0) fail("a field comes twice");
    if (field.number == number) found = field;
  }
  return found;
}

// CRC-32C, masked as in TensorFlow's records. The register takes one bit after the other.
inline uint32_t masked_crc32c(const std::string& bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc % 2 == 1 ? 0x82f63b78 : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

// The data of each record. Fails if a CRC is wrong or if the file ends within a record.
inline std::vector<std::string> records_of(const std::string& file) {
  const auto number = [&](size_t at, size_t size) {
    if (at + size > file.size()) fail("a record is cut off");
    uint64_t value = 0;
    std::memcpy(&value, file.data() + at, size);
    return value;
  };
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    const uint64_t length = number(at, 8);
    if (number(at + 8, 4) != masked_crc32c(file.substr(at, 8))) fail("a length's CRC is wrong");
    const std::string data = file.substr(at + 12, length);
    if (number(at + 12 + length, 4) != masked_crc32c(data)) fail("a record's CRC is wrong");
    records.push_back(data);
    at += 16 + length;
  }
  return records;
}

// An event, with the fields that our files use.
struct ReadEvent {
  double wall_time = 0;
  uint64_t step = 0;
  std::string version;
  uint64_t session = 0;  // 1: it starts, and points from `step` on in earlier files are void
  std::map<std::string, float> scalars;
  std::map<std::string, std::string> texts;
};

inline void read_value(const std::string& value, ReadEvent& event) {
  const std::string tag = only_field(value, 1).bytes;
  if (event.scalars.contains(tag) || event.texts.contains(tag)) fail("a tag comes twice: " + tag);
  const std::string tensor = only_field(value, 8).bytes;
  if (tensor.empty()) {
    const auto bits = static_cast<uint32_t>(only_field(value, 2).bits);
    std::memcpy(&event.scalars[tag], &bits, sizeof bits);
    return;
  }
  const std::string plugin = only_field(only_field(value, 9).bytes, 1).bytes;
  if (only_field(plugin, 1).bytes != "text") fail("a tensor that is no text");
  if (only_field(tensor, 1).bits != 7) fail("a text that is no string");
  if (!only_field(tensor, 2).bytes.empty()) fail("a text of several");
  event.texts[tag] = only_field(tensor, 8).bytes;
}

inline std::vector<ReadEvent> events_of(const std::string& path) {
  std::vector<ReadEvent> events;
  for (const std::string& record : records_of(text_of(path))) {
    ReadEvent event;
    const uint64_t wall_time = only_field(record, 1).bits;
    std::memcpy(&event.wall_time, &wall_time, sizeof wall_time);
    event.step = only_field(record, 2).bits;
    event.version = only_field(record, 3).bytes;
    event.session = only_field(only_field(record, 7).bytes, 1).bits;
    for (const WireField& value : fields_of(only_field(record, 5).bytes)) {
      read_value(value.bytes, event);
    }
    events.push_back(event);
  }
  return events;
}

}  // namespace ladder
