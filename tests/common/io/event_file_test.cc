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
