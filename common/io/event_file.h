// TensorBoard's event files.
//
// An event file is a list of records. All numbers are little-endian:
//   8 bytes  n, the length of the data      4 bytes  masked CRC of these 8 bytes
//   n bytes  the data: a message Event      4 bytes  masked CRC of the data
// The CRC is CRC-32C. It is masked, so that the CRC of data that has CRCs in it is still a good
// one: rotated right by 15 bits, plus 0xa282ead8. [TensorFlow, core/lib/io/record_writer.h,
// hash/crc32c.h]
//
// A message is in the wire format of protocol buffers: a list of fields. A field is its key, which
// is number * 8 + wire type, then its value. The wire types here are 0 (a varint: seven bits a
// byte, the lowest first, and all bytes but the last have the eighth bit), 1 (eight bytes), 2 (a
// varint with the length, then text or a message) and 5 (four bytes). [protobuf.dev, Encoding] The
// fields are those of Event, Summary, TensorProto and SessionLog. [TensorBoard,
// compat/proto/{event,summary,tensor}.proto]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/io/growing_file.h"

namespace ladder {

// A Summary has named values of one step.
class EventSummary {
 public:
  // TensorBoard keeps scalars in fp32.
  void add_scalar(std::string_view tag, double value);
  // TensorBoard shows `text` as Markdown. REQUIRES: `text` is UTF-8.
  void add_text(std::string_view tag, std::string_view text);

  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

// EventFile writes an event file, which can be read meanwhile: each event is there whole as soon as
// write() returns.
class EventFile {
 public:
  // Creates the file. It begins with an event that tells TensorBoard to forget what other files of
  // the folder, with names that sort before this one's, have of steps from `first_step` on. Throws
  // an Error if a file with this name is there, or cannot be made.
  EventFile(const std::string& path, int64_t first_step);

  // Writes what is known of a step. Throws an Error if the disk is full.
  void write(int64_t step, const EventSummary& summary);
  // Brings the file to the disk. Throws an Error if that fails. REQUIRES: it is the last call.
  void finish();

 private:
  void write_record(std::string_view data);

  GrowingFile file_;
};

// Returns whether TensorBoard takes a file with this name for an event file.
bool is_event_file(std::string_view name);

// Returns a name for a new event file: events.out.tfevents.SECONDS.HOST.PROCESS.0, with the seconds
// since 1970. It sorts after those of the files `others`, even if they were made in this second.
std::string event_file_name(const std::vector<std::string>& others);

}  // namespace ladder
