#include "common/io/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <boost/crc.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>

#include "common/io/path.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

static_assert(std::endian::native == std::endian::little);

std::string bytes_of(auto number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

uint32_t masked_crc(std::string_view bytes) {
  // CRC-32C [RFC 3720, section 12.1]: Castagnoli's polynomial; bits of a byte go in and come out
  // with the lowest first.
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<uint32_t>(crc.checksum()), 15) + 0xa282ead8;
}

enum WireType : uint64_t { kVarint = 0, kEightBytes = 1, kLength = 2, kFourBytes = 5 };

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(uint64_t number, WireType type) { return varint(number << 3 | type); }
std::string field(uint64_t number, double value) {
  return key(number, kEightBytes) + bytes_of(value);
}
std::string field(uint64_t number, float value) {
  return key(number, kFourBytes) + bytes_of(value);
}
std::string field(uint64_t number, int64_t value) {
  return key(number, kVarint) + varint(static_cast<uint64_t>(value));
}
std::string field(uint64_t number, std::string_view value) {
  return key(number, kLength) + varint(value.size()).append(value);
}

// Returns the seconds since 1970 began, in UTC, to the microsecond.
double time_of_day() {
  std::timespec now;
  check(std::timespec_get(&now, TIME_UTC) == TIME_UTC, "event file: no time of day");
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The numbers of fields.
namespace event {
constexpr uint64_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7,
                   kSourceMetadata = 10;
}
namespace summary {
constexpr uint64_t kValue = 1;
constexpr uint64_t kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;  // of a value
constexpr uint64_t kPluginData = 1, kPluginName = 1;                        // of its metadata
}  // namespace summary
namespace tensor {
constexpr uint64_t kDtype = 1, kShape = 2, kStringValue = 8;
constexpr int64_t kString = 7;  // a dtype
}  // namespace tensor
constexpr uint64_t kStatus = 1;        // of a session log
constexpr int64_t kSessionStart = 1;   // a status
constexpr uint64_t kSourceWriter = 1;  // of source metadata

// What the first event of a file has after its time: the version of the format, which TensorBoard
// asks for, and the program that wrote the file.
std::string file_header() {
  return field(event::kFileVersion, "brain.Event:2") +
         field(event::kSourceMetadata, field(kSourceWriter, "ladder.event_file"));
}

std::string event_of_step(int64_t step, uint64_t content, std::string_view message) {
  return field(event::kWallTime, time_of_day()) + field(event::kStep, step) +
         field(content, message);
}

}  // namespace

void EventSummary::add_scalar(std::string_view tag, double value) {
  message_ += field(summary::kValue, field(summary::kTag, tag) +
                                         field(summary::kSimpleValue, static_cast<float>(value)));
}

void EventSummary::add_text(std::string_view tag, std::string_view text) {
  const std::string content = field(tensor::kDtype, tensor::kString) +
                              field(tensor::kShape, std::string_view()) +  // no dimensions
                              field(tensor::kStringValue, text);
  const std::string plugin = field(summary::kPluginData, field(summary::kPluginName, "text"));
  message_ += field(summary::kValue, field(summary::kTag, tag) + field(summary::kTensor, content) +
                                         field(summary::kMetadata, plugin));
}

EventFile::EventFile(const std::string& path, int64_t first_step) {
  Descriptor file(
      open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.is_open()) throw FileError(concat(path, ": cannot be made: ", std::strerror(errno)));
  sync_name(path);
  file_ = GrowingFile(std::move(file), path);
  write_record(field(event::kWallTime, time_of_day()) + file_header());
  write_record(event_of_step(first_step, event::kSessionLog, field(kStatus, kSessionStart)));
}

void EventFile::write(int64_t step, const EventSummary& summary) {
  write_record(event_of_step(step, event::kSummary, summary.message()));
}

void EventFile::write_record(std::string_view data) {
  const std::string length = bytes_of(static_cast<uint64_t>(data.size()));
  std::string record = length + bytes_of(masked_crc(length));
  record.append(data).append(bytes_of(masked_crc(data)));
  file_.write(std::as_bytes(std::span(record)));
}

void EventFile::finish() {
  file_.sync();
  file_.close();
}

namespace {

constexpr std::string_view kNameBegin = "events.out.tfevents.";

}  // namespace

bool is_event_file(std::string_view name) { return name.find("tfevents") != name.npos; }

std::string event_file_name(const std::vector<std::string>& others) {
  int64_t seconds = std::time(nullptr);
  for (const std::string_view other : others) {
    int64_t number = 0;
    if (!other.starts_with(kNameBegin)) continue;
    std::from_chars(other.data() + kNameBegin.size(), other.data() + other.size(), number);
    seconds = std::max(seconds, number + 1);
  }
  std::string host(256, '\0');
  check(gethostname(host.data(), host.size() - 1) == 0, "event file: this machine has no name");
  constexpr size_t kDigits = 10;  // of the seconds, until the year 2286
  std::string digits = std::to_string(seconds);
  digits.insert(0, kDigits - std::min(kDigits, digits.size()), '0');
  return concat(kNameBegin, digits, ".", host.c_str(), ".", getpid(), ".0");
}

}  // namespace ladder
