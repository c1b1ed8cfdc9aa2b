#include "common/virtual/devices.h"

#include <string>

#include "tests/catch.h"
#include "tests/common/virtual/times.h"

namespace ladder {
namespace {

const SimpleTimes kTimes;

// Runs to the end and returns the spans in the order of their ends.
std::vector<DeviceSpan> run(Devices& devices) {
  std::vector<DeviceSpan> spans;
  devices.observer = [&](const DeviceSpan& span) { spans.push_back(span); };
  while (devices.advance()) {
  }
  return spans;
}

TEST_CASE("A stream runs its work in order, none before the host has queued it") {
  Devices devices(kTimes, 1);
  const auto stream = devices.add_stream(0);
  devices.add_work(stream, 1, "a", Port::compute, 2);
  devices.add_work(stream, 1, "b", Port::compute, 3);
  devices.add_work(stream, 10, "c", Port::compute, 1);
  const std::vector<DeviceSpan> spans = run(devices);
  REQUIRE(spans.size() == 3);
  CHECK((spans[0].begin == 1 && spans[0].end == 3));
  CHECK((spans[1].begin == 3 && spans[1].end == 6));
  CHECK((spans[2].begin == 10 && spans[2].end == 11));
  CHECK(devices.is_idle(stream));
}

TEST_CASE("Work of two streams shares the port that it uses, and no other") {
  Devices devices(kTimes, 2);
  const auto port = GENERATE(Port::compute, Port::host, Port::copy);
  devices.add_work(devices.add_stream(0), 0, "a", port, 2);
  devices.add_work(devices.add_stream(0), 1, "b", port, 2);
  devices.add_work(devices.add_stream(1), 0, "another rank", port, 2);
  const Port other = port == Port::copy ? Port::compute : Port::copy;
  devices.add_work(devices.add_stream(0), 0, "another port", other, 2);
  // a: one second alone and two at half the speed; b: two at half the speed and one alone.
  for (const DeviceSpan& span : run(devices)) {
    INFO(span.name);
    CHECK(span.end == (span.name == std::string("a") ? 3 : span.name == std::string("b") ? 4 : 2));
  }
}

TEST_CASE("A stream waits for a mark in another one") {
  Devices devices(kTimes, 1);
  const auto first = devices.add_stream(0), second = devices.add_stream(0);
  devices.add_work(first, 0, "a", Port::compute, 5);
  const auto mark = devices.add_mark(first, 0);
  devices.add_wait(second, 0, mark);
  devices.add_work(second, 0, "b", Port::copy, 1);
  bool told = false;
  devices.notify(mark, [&] { told = true; });
  const std::vector<DeviceSpan> spans = run(devices);
  CHECK(told);
  CHECK(devices.time_of(mark) == 5);
  REQUIRE(spans.size() == 2);
  CHECK(spans[1].begin == 5);
  CHECK(spans[1].end == 6);
}

TEST_CASE("A meeting begins when the last has come, and slows computation down") {
  Devices devices(kTimes, 2);
  const auto meeting = devices.make_meeting("all_reduce", Port::inside, 4, 2);
  const auto early = devices.add_stream(0), late = devices.add_stream(1);
  devices.add_work(late, 0, "before", Port::compute, 2);
  devices.add_meeting(early, 1, meeting);
  devices.add_meeting(late, 0, meeting);
  devices.add_work(devices.add_stream(0), 0, "beside", Port::compute, 5);
  CHECK(devices.stands_at(0).empty() == false);
  const std::vector<DeviceSpan> spans = run(devices);
  REQUIRE(spans.size() == 4);
  for (const DeviceSpan& span : spans) {
    const std::string name = span.name;
    if (name == "before") CHECK(span.end == 2);
    // Two seconds alone; then three quarters of the speed for four seconds, and no work is left.
    if (name == "beside") CHECK(span.end == 6);
    if (name != "all_reduce") continue;
    CHECK(span.came == (span.rank == 0 ? 1 : 2));
    CHECK(span.begin == 2);
    CHECK(span.end == 6);
  }
}

TEST_CASE("Two meetings of a rank share its links, and each is as slow as its slowest rank") {
  Devices devices(kTimes, 3);
  const auto a = devices.make_meeting("a", Port::inside, 2, 2);
  const auto b = devices.make_meeting("b", Port::inside, 2, 2);
  devices.add_meeting(devices.add_stream(0), 0, a);
  devices.add_meeting(devices.add_stream(1), 0, a);
  devices.add_meeting(devices.add_stream(1), 1, b);
  devices.add_meeting(devices.add_stream(2), 1, b);
  for (const DeviceSpan& span : run(devices))
    CHECK(span.end == (span.name == std::string("a") ? 3 : 4));
}

TEST_CASE("What has ended leaves its place to others, and no event of its own behind") {
  Devices devices(kTimes, 1);
  for (int round = 0; round < 3; ++round) {
    const auto stream = devices.add_stream(0);
    const auto other = devices.add_stream(0);
    CHECK(stream + other == 1);  // the same two places again
    const double now = devices.now();
    // The work that ends second has had two other ends before.
    devices.add_work(stream, now, "a", Port::compute, 1);
    devices.add_work(other, now, "b", Port::compute, 2);
    const std::vector<DeviceSpan> spans = run(devices);
    REQUIRE(spans.size() == 2);
    CHECK(spans[0].end == now + 2);
    CHECK(spans[1].end == now + 3);
    devices.remove_stream(stream);
    devices.remove_stream(other);
  }
}

TEST_CASE("A deadlock shows as streams that stand at a meeting") {
  Devices devices(kTimes, 2);
  devices.add_meeting(devices.add_stream(0), 0,
                      devices.make_meeting("tensor all_reduce", Port::inside, 1, 2));
  run(devices);
  CHECK(devices.stands_at(0) == "tensor all_reduce");
  CHECK(devices.stands_at(1).empty());
}

}  // namespace
}  // namespace ladder
