// The timeline of two ranks: what was computed and communicated, in order, as JSON that opens.
#include "common/train/trace.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "common/model/layout.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/range.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"
#include "tests/mpi_main.h"

namespace ladder {
namespace {

using testing::world;
using Json = nlohmann::json;

// A path that no other test uses, removed at the end; on rank 0.
class TraceFile {
 public:
  TraceFile() {
    const char* const folder = std::getenv("TEST_TMPDIR");
    path_ = concat(folder != nullptr ? folder : "/tmp", "/trace_", getpid(), ".json");
  }
  ~TraceFile() { std::filesystem::remove(path_); }
  TraceFile(const TraceFile&) = delete;

  const std::string& path() const { return path_; }
  Json parse() const {
    std::ifstream file(path_);
    return Json::parse(file).at("traceEvents");
  }

 private:
  std::string path_;
};

// Events with a duration of one rank's lane, as they are in the file.
std::vector<Json> spans(const Json& events, size_t rank, int lane) {
  std::vector<Json> found;
  for (const Json& event : events) {
    if (event.at("ph") == "X" && event.at("pid") == rank && event.at("tid") == lane) {
      found.push_back(event);
    }
  }
  return found;
}

// Spans of one lane follow each other, beginning at 0 or later.
void check_order(const std::vector<Json>& lane) {
  double end = 0;
  for (const Json& span : lane) {
    INFO(span.dump());
    const double from = span.at("ts"), duration = span.at("dur");
    // Times are whole nanoseconds in microseconds: what is less than half of one is rounding.
    CHECK(from >= end - 5e-4);
    CHECK(duration >= 0);
    end = from + duration;
  }
}

void compute_for(double seconds) {
  const auto begin = Clock::now();
  while (seconds_since(begin) < seconds) std::this_thread::yield();
}

// What a step does: units backward, each reduced in the background when it is final, then a number
// summed and an update.
void run_step(Stream& stream, const Layout& layout, Communicator& ranks) {
  std::vector<float> gradients(1 << 16);
  const TensorView all(gradients.data(), DType::fp32, DeviceType::cpu, {gradients.size()});
  std::vector<Work> started;
  for (size_t unit = layout.units().size(); unit-- > 0;) {
    {
      const Range range(stream, layout.unit(unit).name, "backward");
      compute_for(1e-4);
    }
    started.push_back(
        ranks.all_reduce(stream, all, {.purpose = Purpose::gradient, .background = true}));
  }
  for (Work& work : started) work.wait(stream);
  ranks.all_reduce(stream, all.rows(0, 1), {}).wait(stream);
  const Range range(stream, "AdamW");
  compute_for(1e-4);
}

constexpr Gpt2Config kModel = {
    .num_layers = 2, .num_heads = 1, .hidden = 8, .vocab_size = 16, .sequence_length = 4};

TEST_CASE("a trace has every computation and every collective of both ranks, once and in order") {
  constexpr int kSteps = 3;
  const auto ranks = testing::make_communicator(world(), nullptr);
  const auto others = ranks->split(0);  // not observed
  const Layout layout(kModel, ranks->size());
  ranks->barrier();
  Trace trace;
  trace.observe(*ranks);
  Stream observed(DeviceType::cpu), stream(DeviceType::cpu);
  trace.observe(observed);
  for (int step = 0; step < kSteps; ++step) run_step(observed, layout, *ranks);
  { const Range range(stream, "not observed"); }
  int32_t one = 1;
  others->all_reduce(stream, {&one, DType::int32, DeviceType::cpu, {1}}, {}).wait(stream);

  const TraceFile file;
  std::optional<PartialFile> out;
  if (ranks->rank() == 0) out.emplace(file.path());
  write_trace(trace, out ? &*out : nullptr, *others);
  if (ranks->rank() != 0) return;
  const Json events = file.parse();
  for (size_t rank = 0; rank < ranks->size(); ++rank) {
    INFO("rank " << rank);
    std::vector<std::string> computed, communicated;
    const std::vector<Json> compute = spans(events, rank, 0);
    for (const Json& span : compute) computed.push_back(span.at("name"));
    for (const Json& span : spans(events, rank, 1)) communicated.push_back(span.at("name"));
    std::vector<std::string> units, operations;
    for (int step = 0; step < kSteps; ++step) {
      for (size_t unit = layout.units().size(); unit-- > 0;) {
        units.push_back(layout.unit(unit).name + " backward");
        operations.emplace_back("gradient all_reduce");
      }
      units.emplace_back("AdamW");
      operations.emplace_back("control all_reduce");
    }
    CHECK(computed == units);
    CHECK(communicated == operations);
    check_order(compute);
    check_order(spans(events, rank, 1));
    for (const Json& span : compute) CHECK(span.at("dur") >= 100);  // as long as it computed
    CHECK(std::ranges::count_if(events, [&](const Json& event) {
            return event.at("name") == "process_name" && event.at("pid") == rank &&
                   event.at("args").at("name") == concat("rank ", rank);
          }) == 1);
  }
  const size_t spans_of_both = 2 * kSteps * 2 * (layout.units().size() + 1);
  CHECK(events.size() == spans_of_both + 2 * 3);  // a name for each rank and lane
}

TEST_CASE("operations at the same time have a lane each, however they were recorded") {
  Trace trace;
  const auto begin = Clock::now();
  const auto add = [&](Trace::Lane lane, const std::string& name, int from, int to) {
    const auto at = [&](int ms) { return begin + std::chrono::milliseconds(ms); };
    trace.add(lane, name, at(from), at(to));
  };
  using enum Trace::Lane;
  add(compute, "forward", 0, 9);
  add(communication, "inside", 2, 3);  // operations are recorded as they end
  add(communication, "first", 1, 4);
  add(communication, "behind", 4, 8);
  add(communication, "beside both", 3, 6);
  const Json events = Json::parse(concat("[", trace.json(3), "]"));
  std::map<std::string, int> lanes;
  for (const Json& event : events) {
    if (event.at("ph") == "X") lanes[event.at("name")] = event.at("tid");
  }
  CHECK(lanes ==
        std::map<std::string, int>{
            {"forward", 0}, {"first", 1}, {"inside", 2}, {"behind", 1}, {"beside both", 2}});
  CHECK(events.size() == 5 + 1 + 3);  // names of the rank and of three lanes
}

TEST_CASE("a trace is as long as it is: ranks with nothing and with much to tell, and any name") {
  const auto ranks = testing::make_communicator(world(), nullptr);
  Trace trace;
  const std::string name = "a \"name\"\n\\ of many bytes";
  const auto now = Clock::now();
  const size_t count = ranks->rank() == 0 ? 0 : 20000;
  for (size_t i = 0; i < count; ++i) trace.add(Trace::Lane::compute, name, now, now);
  const TraceFile file;
  std::optional<PartialFile> out;
  if (ranks->rank() == 0) out.emplace(file.path());
  write_trace(trace, out ? &*out : nullptr, *ranks);
  if (ranks->rank() != 0) return;
  const Json events = file.parse();
  CHECK(spans(events, 0, 0).empty());
  const std::vector<Json> theirs = spans(events, 1, 0);
  REQUIRE(theirs.size() == 20000);
  CHECK(std::ranges::all_of(theirs, [&](const Json& span) { return span.at("name") == name; }));
}

TEST_CASE("what encloses a span comes before it, also a unit that consists of one kernel") {
  const auto ranks = testing::make_communicator(world(), nullptr);
  Trace trace;
  const auto now = Clock::now();
  const auto at = [&](int microseconds) { return now + std::chrono::microseconds(microseconds); };
  trace.add(Trace::Lane::compute, "kernel", at(0), at(2));
  trace.add(Trace::Lane::compute, "kernel", at(2), at(3));
  trace.add(Trace::Lane::compute, "two kernels", at(0), at(3));
  trace.add(Trace::Lane::compute, "kernel", at(3), at(5));
  trace.add(Trace::Lane::compute, "one kernel", at(3), at(5));
  const TraceFile file;
  std::optional<PartialFile> out;
  if (ranks->rank() == 0) out.emplace(file.path());
  write_trace(trace, out ? &*out : nullptr, *ranks);
  if (ranks->rank() != 0) return;
  std::vector<std::string> names;
  for (const Json& span : spans(file.parse(), 0, 0)) names.push_back(span.at("name"));
  CHECK(names ==
        std::vector<std::string>{"two kernels", "kernel", "kernel", "one kernel", "kernel"});
}

TEST_CASE("a trace has the first spans, and says how many are left out") {
  const auto ranks = testing::make_communicator(world(), nullptr);
  const size_t own = ranks->rank() == 0 ? 3 : 5;
  Trace trace(3);
  const auto now = Clock::now();
  for (size_t i = 0; i < own; ++i) {
    const auto at = now + std::chrono::microseconds(i);
    trace.add(Trace::Lane::compute, concat("span ", i), at, at);
  }
  CHECK(trace.num_left_out() == own - 3);
  const TraceFile file;
  std::optional<PartialFile> out;
  if (ranks->rank() == 0) out.emplace(file.path());
  CHECK(write_trace(trace, out ? &*out : nullptr, *ranks) == 2);  // of both ranks
  if (ranks->rank() != 0) return;
  const Json events = file.parse();
  std::vector<std::string> labels;
  for (size_t rank = 0; rank < 2; ++rank) {
    const std::vector<Json> kept = spans(events, rank, 0);
    REQUIRE(kept.size() == 3);
    for (size_t i = 0; i < 3; ++i) CHECK(kept[i].at("name") == concat("span ", i));
  }
  for (const Json& event : events) {
    if (event.at("name") == "process_labels") {
      labels.push_back(concat(event.at("pid"), ": ", event.at("args").at("labels")));
    }
  }
  CHECK(labels == std::vector<std::string>{"1: \"the last 2 spans are left out\""});
}

TEST_CASE("a trace that does not fit on the disk is an error, and no file") {
  const auto ranks = testing::make_communicator(world(), nullptr);
  const Trace trace;
  if (ranks->rank() != 0) {
    write_trace(trace, nullptr, *ranks);
    return;
  }
  const TestFolder folder;
  {
    PartialFile out(folder / "trace");
    const FullDisk full(100);
    CHECK_THROWS_AS(write_trace(trace, &out, *ranks), Error);
  }
  CHECK(folder.list().empty());
}

}  // namespace
}  // namespace ladder
