// TensorBoard's event files.
#include "common/io/event_file.h"

#include <ctime>
#include <limits>

#include "tests/catch.h"
#include "tests/common/io/event_records.h"

namespace ladder {
namespace {

TEST_CASE("the test's CRC is the known one") {
  // CRC-32C of "123456789" is e3069283 [RFC 3720's polynomial, the usual check value].
  CHECK(masked_crc32c("123456789") == (0xe3069283u >> 15 | 0xe3069283u << 17) + 0xa282ead8u);
}

TEST_CASE("an event file says its version, where the run starts, then each step's values") {
  const TestFolder folder;
  const std::string path = folder / "events";
  const auto before = static_cast<double>(std::time(nullptr));
  EventFile file(path, 3);
  CHECK(events_of(path).size() == 2);
  EventSummary third;
  third.add_scalar("train/loss", 0.1);
  third.add_scalar("zero", 0);
  third.add_scalar("large", -1e300);
  file.write(3, third);
  CHECK(events_of(path).size() == 3);  // while the file is still open
  EventSummary later;
  later.add_text("sample", "\u00fc < *\n");
  later.add_text("none", "");
  later.add_text("long", std::string(100'000, 'x'));
  file.write((int64_t{1} << 40) + 300, later);
  file.finish();

  const std::vector<ReadEvent> events = events_of(path);
  REQUIRE(events.size() == 4);
  for (const ReadEvent& event : events) {
    CHECK(event.wall_time >= before);
    // The test took less than a minute, on any machine.
    CHECK(event.wall_time < before + 60);
  }
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[0].step == 0);
  CHECK(events[1].session == 1);
  CHECK(events[1].step == 3);
  CHECK(events[2].session == 0);
  CHECK(events[2].version.empty());
  CHECK(events[2].step == 3);
  CHECK(events[2].scalars ==
        std::map<std::string, float>{
            {"train/loss", 0.1f}, {"zero", 0}, {"large", -std::numeric_limits<float>::infinity()}});
  CHECK(events[3].step == (uint64_t{1} << 40) + 300);
  CHECK(events[3].scalars.empty());
  CHECK(events[3].texts == std::map<std::string, std::string>{{"sample", "\u00fc < *\n"},
                                                              {"none", ""},
                                                              {"long", std::string(100'000, 'x')}});
}

TEST_CASE("steps and lengths are whole where a varint gets one byte more") {
  const TestFolder folder;
  const size_t size = GENERATE(127, 128, 129, 255, 16'383, 16'384);
  CAPTURE(size);
  const auto step = static_cast<int64_t>(size);
  EventFile file(folder / "events", step);
  EventSummary summary;
  summary.add_text("text", std::string(size, 'x'));
  file.write(step, summary);
  const std::vector<ReadEvent> events = events_of(folder / "events");
  REQUIRE(events.size() == 3);
  CHECK(events[2].step == size);
  CHECK(events[2].texts.at("text").size() == size);
  const std::string bytes = text_of(folder / "events");
  CHECK(event_bytes_up_to(std::as_bytes(std::span(bytes)), step) == bytes.size());
  CHECK(event_bytes_up_to(std::as_bytes(std::span(bytes)), step - 1) < bytes.size());
}

TEST_CASE("an event file replaces none, and a full disk leaves whole events") {
  const TestFolder folder;
  const std::string path = folder.write("events", "old");
  CHECK_THROWS_AS(EventFile(path, 1), Error);
  CHECK_THROWS_WITH(EventFile(path, 1), path + ": cannot be made: File exists");
  CHECK(text_of(path) == "old");

  EventFile file(folder / "new", 1);
  EventSummary summary;
  summary.add_scalar("loss", 1);
  file.write(1, summary);
  const std::string whole = text_of(folder / "new");
  {
    const FullDisk full(whole.size() + 20);
    CHECK_THROWS_WITH(file.write(2, summary), ContainsSubstring("new: write failed"));
  }
  CHECK(text_of(folder / "new") == whole);
}

// The file of a run of five steps that began at step 1.
std::string file_of_five(const TestFolder& folder) {
  const std::string path = folder / "events";
  EventFile file(path, 1);
  for (int64_t step = 1; step <= 5; ++step) {
    EventSummary loss, sample;
    loss.add_scalar("loss", static_cast<double>(step));
    sample.add_text("sample", "text");
    file.write(step, loss);
    file.write(step, sample);
  }
  file.finish();
  return text_of(path);
}

std::string up_to(const std::string& file, int64_t last_step) {
  return file.substr(0, event_bytes_up_to(std::as_bytes(std::span(file)), last_step));
}

TEST_CASE("the events up to a step are found, also in a file that is cut off") {
  const TestFolder folder;
  const std::string file = file_of_five(folder);
  for (size_t step = 1; step <= 5; ++step) {
    CHECK(records_of(up_to(file, static_cast<int64_t>(step))).size() == 2 + 2 * step);
  }
  CHECK(up_to(file, 5) == file);
  CHECK(up_to(file, 900) == file);
  CHECK(records_of(up_to(file, 0)).size() == 1);  // the version
  CHECK(up_to("", 5).empty());
  const std::string four = up_to(file, 4);
  for (size_t size = four.size(); size < file.size(); ++size) {
    const std::string kept = up_to(file.substr(0, size), 5);
    // A whole event of step 5 is there or it is not.
    CHECK((kept == four || records_of(kept).size() == 11));
  }
  const std::string large = [&] {
    EventFile events(folder / "large", 1);
    events.write(int64_t{1} << 40, {});
    return text_of(folder / "large");
  }();
  CHECK(up_to(large, int64_t{1} << 40) == large);
  CHECK(up_to(large, (int64_t{1} << 40) - 1) != large);
}

TEST_CASE("a file that is damaged, or another program's, is an error that says so") {
  const TestFolder folder;
  const std::string file = file_of_five(folder);
  for (size_t at = 0; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 16);
    CAPTURE(at);
    CHECK_THROWS_AS(up_to(damaged, 5), UserError);
    CHECK_THROWS_WITH(up_to(damaged, 5), ContainsSubstring("is damaged at byte "));
  }
  CHECK_THROWS_WITH(up_to("In the beginning God created the heaven", 5), "is damaged at byte 0");
  // A record of TensorFlow's own: a version, and no writer.
  const std::string data =
      "\x1a\x0d"
      "brain.Event:2";
  std::string foreign(8, '\0');
  foreign[0] = static_cast<char>(data.size());
  const auto append_crc = [&](const std::string& bytes) {
    const uint32_t crc = masked_crc32c(bytes);
    foreign.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  };
  append_crc(foreign);
  foreign += data;
  append_crc(data);
  REQUIRE(records_of(foreign).size() == 1);
  CHECK_THROWS_WITH(up_to(foreign, 5), "was written by another program");
}

TEST_CASE("the name of an event file is one for TensorBoard, and sorts after those of others") {
  const std::string first = event_file_name({});
  CHECK_THAT(first, Matches(R"(events\.out\.tfevents\.[0-9]{10}\..+\.[0-9]+\.0)"));
  CHECK(is_event_file(first));
  CHECK_FALSE(is_event_file("metrics.jsonl"));
  const std::string second = event_file_name({first});
  CHECK(second > first);
  CHECK(event_file_name({second, first, "metrics"}) > second);
  const std::string future = "events.out.tfevents.4000000000.host.1.0";
  CHECK(event_file_name({first, future}) > future);
}

}  // namespace
}  // namespace ladder
