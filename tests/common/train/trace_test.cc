// The timeline of two ranks: what was computed and communicated, in order, as JSON that opens.
#include "common/train/report/trace.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "common/model/layout.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/range.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"
#include "tests/common/train/perfetto.h"
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

// The names of a trace's rows, by thread.
std::map<int, std::string> rows_of(const Json& events) {
  std::map<int, std::string> rows;
  for (const Json& event : events) {
    if (event.at("name") == "thread_name") rows[event.at("tid")] = event.at("args").at("name");
  }
  return rows;
}

// Events with a duration in one of a rank's rows, as they are in the file.
std::vector<Json> spans(const Json& events, size_t rank, const std::string& row) {
  const std::map<int, std::string> rows = rows_of(events);
  std::vector<Json> found;
  for (const Json& event : events) {
    if (event.at("ph") != "X" || event.at("pid") != rank) continue;
    if (rows.at(event.at("tid")) == row) found.push_back(event);
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
  const Range range(stream, "update");
  compute_for(1e-4);
}

constexpr ModelConfig kModel = {
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
    const std::vector<Json> compute = spans(events, rank, "compute");
    for (const Json& span : compute) computed.push_back(span.at("name"));
    for (const Json& span : spans(events, rank, "communication"))
      communicated.push_back(span.at("name"));
    std::vector<std::string> units, operations;
    for (int step = 0; step < kSteps; ++step) {
      for (size_t unit = layout.units().size(); unit-- > 0;) {
        units.push_back(layout.unit(unit).name + " backward");
        operations.emplace_back("gradient all_reduce");
      }
      units.emplace_back("update");
      operations.emplace_back("control all_reduce");
    }
    CHECK(computed == units);
    CHECK(communicated == operations);
    check_order(compute);
    check_order(spans(events, rank, "communication"));
    for (const Json& span : compute) CHECK(span.at("dur") >= 100);  // as long as it computed
    CHECK(std::ranges::count_if(events, [&](const Json& event) {
            return event.at("name") == "process_name" && event.at("pid") == rank &&
                   event.at("args").at("name") == concat("rank ", rank);
          }) == 1);
  }
  CHECK(testing::perfetto_faults(events) == std::vector<std::string>());
  const size_t spans_of_both = 2 * kSteps * 2 * (layout.units().size() + 1);
  CHECK(events.size() == spans_of_both + 2 * 3);  // a name for each rank and lane
}

// The row of each span that trace.json() has.
std::map<std::string, std::string> rows_by_span(const Json& events) {
  const std::map<int, std::string> rows = rows_of(events);
  std::map<std::string, std::string> found;
  for (const Json& event : events) {
    if (event.at("ph") == "X") found[event.at("name")] = rows.at(event.at("tid"));
  }
  return found;
}

TEST_CASE("what ran at the same time has a row each, however it was recorded") {
  Trace trace;
  const auto begin = Clock::now();
  const auto add = [&](Trace::Lane lane, const std::string& name, int from, int to) {
    const auto at = [&](int ms) { return begin + std::chrono::milliseconds(ms); };
    trace.add(lane, name, at(from), at(to));
  };
  using enum Trace::Lane;
  add(compute, "kernel", 1, 3);
  add(compute, "forward", 0, 9);
  add(compute, "on another stream", 8, 12);  // a device that copies while it computes
  add(compute, "kernel there", 9, 11);
  add(compute, "backward", 9, 20);
  add(communication, "inside", 2, 3);  // operations are recorded as they end
  add(communication, "first", 1, 4);
  add(communication, "behind", 4, 8);
  add(communication, "beside both", 3, 6);
  const Json events = Json::parse(concat("[", trace.json(3, 5), "]"));
  CHECK(rows_by_span(events) ==
        std::map<std::string, std::string>{{"forward", "compute"},
                                           {"kernel", "compute"},
                                           {"on another stream", "compute 2"},
                                           {"backward", "compute"},
                                           {"kernel there", "compute"},
                                           {"first", "communication"},
                                           {"inside", "communication 2"},
                                           {"behind", "communication"},
                                           {"beside both", "communication 2"}});
  CHECK(testing::perfetto_faults(events) == std::vector<std::string>());
  CHECK(events.size() == 9 + 1 + 4);  // names of the rank and of four rows
}

// Times in nanoseconds as clocks have them: many meet, nest by a hair or overlap by one.
TEST_CASE("Perfetto reads every span of any trace, on as many ranks as there are") {
  std::mt19937_64 random(7);
  const auto number = [&](int64_t below) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(below));
  };
  const size_t num_ranks = 9;
  std::string text;
  std::map<std::pair<size_t, std::string>, std::pair<int64_t, int64_t>> expected;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const auto origin = Clock::now();
    Trace trace;
    const auto first = Clock::now() - origin;  // where Trace put time 0, or later by a few ns
    std::vector<int64_t> times = {number(1'000'000'000'000)};
    for (int i = 0; i < 300; ++i) {
      const int64_t from = times[random() % times.size()] + number(3) * number(2000);
      const int64_t to =
          number(2) == 0 ? from + number(3000) : std::max(from, times[random() % times.size()]);
      times.push_back(to);
      const std::string name = concat("span ", i);
      trace.add(number(2) == 0 ? Trace::Lane::compute : Trace::Lane::communication, name,
                origin + first + std::chrono::nanoseconds(from),
                origin + first + std::chrono::nanoseconds(to));
      expected[{rank, name}] = {from, to - from};
    }
    text += concat(text.empty() ? "" : ",", trace.json(rank, num_ranks));
  }
  const Json events = Json::parse(concat("[", text, "]"));
  const std::vector<std::string> faults = testing::perfetto_faults(events);
  CHECK(faults.size() == 0);
  CHECK(faults == std::vector<std::string>());
  for (const Json& event : events) {
    if (event.at("ph") != "X") continue;
    const auto [from, length] = expected.at({event.at("pid"), event.at("name")});
    CAPTURE(event.dump());
    CHECK(testing::multiplied(event.at("dur")) == length);
    CHECK(std::abs(testing::multiplied(event.at("ts")) - from) < 1'000'000'000);
    expected.erase({event.at("pid"), event.at("name")});
  }
  CHECK(expected.empty());
}

TEST_CASE("what Perfetto would drop is found") {
  const auto faults = [](const std::string& threads, const std::string& spans) {
    return testing::perfetto_faults(Json::parse(concat("[", threads, spans, "]"))).size();
  };
  const auto thread = [](int process, int number) {
    return concat(R"({"ph": "M", "name": "thread_name", "pid": )", process, R"(, "tid": )", number,
                  R"(, "args": {"name": "compute"}})");
  };
  const auto span = [](const std::string& from, const std::string& length) {
    return concat(R"(, {"ph": "X", "name": "x", "pid": 0, "tid": 2, "ts": )", from, R"(, "dur": )",
                  length, "}");
  };
  CHECK(faults(thread(0, 2), span("0", "2") + span("0", "1") + span("1", "1")) == 0);
  CHECK(faults(thread(0, 2) + "," + thread(1, 2), "") == 1);
  CHECK(faults(thread(1, 0), "") == 1);
  CHECK(faults(thread(0, 2) + "," + thread(2, 3), "") == 1);
  CHECK(faults(thread(0, 3), span("0", "2")) == 1);
  CHECK(faults(thread(0, 2), span("0", "2") + span("1", "1.5")) == 2);  // both readers
  // 1.001 times 1000 is less than 1001 in floating point.
  CHECK(faults(thread(0, 2), span("0", "1.001") + span("1.001", "0.5")) == 0);
  CHECK(faults(thread(0, 2), span("0.5", "0.501") + span("1.001", "0.5")) == 1);
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
  CHECK(spans(events, 0, "compute").empty());
  const std::vector<Json> theirs = spans(events, 1, "compute");
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
  for (const Json& span : spans(file.parse(), 0, "compute")) names.push_back(span.at("name"));
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
    const std::vector<Json> kept = spans(events, rank, "compute");
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
