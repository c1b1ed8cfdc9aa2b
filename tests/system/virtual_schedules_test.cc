// The executor of lesson 16 on the virtual device does at each time what common/schedule says: for
// every schedule each action begins when simulate() has it begin.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>

#include "common/schedule/build.h"
#include "common/schedule/simulate.h"
#include "kernels/runtime/check.h"
#include "lessons/16_pipeline_schedules/schedules.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

constexpr size_t kStages = 4, kMicroBatches = 8, kLayers = 16;

// What a rank did for one unit, in microseconds: the "backward" of "h.3".
struct UnitEvent {
  std::string unit, pass;
  double begin, end;
};
// A chunk's first and last block.
struct Blocks {
  size_t first, last;
};

// Of the lines "stage 0  wte to h.1, h.13 to ln_f and classifier: ...".
std::vector<std::vector<Blocks>> chunks_in(const std::string& header) {
  std::vector<std::vector<Blocks>> stages;
  const std::regex line(R"(\n  stage \d+ +([^:]*):)"), block(R"(h\.(\d+))");
  const std::sregex_iterator end;
  for (std::sregex_iterator stage(header.begin(), header.end(), line); stage != end; ++stage) {
    std::vector<Blocks>& chunks = stages.emplace_back();
    std::stringstream texts((*stage)[1]);
    for (std::string text; std::getline(texts, text, ',');) {
      std::vector<size_t> numbers;
      for (std::sregex_iterator n(text.begin(), text.end(), block); n != end; ++n) {
        numbers.push_back(std::stoul((*n)[1]));
      }
      const bool is_first = text.find("wte") != text.npos, is_last = text.find("ln_f") != text.npos;
      REQUIRE(!numbers.empty());
      chunks.push_back({is_first ? 0 : numbers.front(), is_last ? kLayers - 1 : numbers.back()});
    }
  }
  return stages;
}

// The work of each rank, in order, and the shortest message.
struct Recorded {
  std::map<size_t, std::vector<UnitEvent>> work;
  double message = 1e9;
};

Recorded recorded_in(const std::string& trace) {
  static const std::set<std::string> passes = {"forward", "classifier", "backward",
                                               "backward_input", "backward_weight"};
  Recorded recorded;
  const nlohmann::json document = nlohmann::json::parse(trace);
  for (const nlohmann::json& event : document.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const std::string name = event.at("name");
    const double begin = event.at("ts"), length = event.at("dur");
    if (name == "pipeline send") recorded.message = std::min(recorded.message, length);
    const size_t blank = name.find(' ');
    if (blank == name.npos) continue;
    const UnitEvent unit = {name.substr(0, blank), name.substr(blank + 1), begin, begin + length};
    if (passes.contains(unit.pass)) recorded.work[event.at("pid")].push_back(unit);
  }
  return recorded;
}

// Returns the span of an action, whose units are the next of `events`, and removes them.
Span take(std::vector<UnitEvent>& events, const Action& action, const Blocks& blocks) {
  const bool goes_forward = action.kind == ActionKind::forward;
  const std::string pass(name_of(action.kind));
  const std::string last = concat("h.", goes_forward ? blocks.last : blocks.first);
  const auto is_after = [&](const UnitEvent& event) {  // what follows the last block
    if (goes_forward)
      return (event.unit == "ln_f" && event.pass == pass) || event.pass == "classifier";
    return (event.unit == "wpe" || event.unit == "wte") && event.pass == pass;
  };
  auto end = std::ranges::find_if(
      events, [&](const UnitEvent& event) { return event.unit == last && event.pass == pass; });
  CAPTURE(describe(action), last);
  REQUIRE(end != events.end());
  end = std::find_if_not(end + 1, events.end(), is_after);
  const Span span = {events.front().begin, (end - 1)->end};
  events.erase(events.begin(), end);
  return span;
}

void check_order(Order order, const Flags& flags) {
  const Scratch folder;
  const ProcessResult result = run_process(Flags{lesson_path("16_pipeline_schedules"),
                                                 "--device",
                                                 "virtual",
                                                 "--cluster",
                                                 "h100x4",
                                                 "--schedule",
                                                 std::string(name_of(order)),
                                                 "--layers",
                                                 std::to_string(kLayers),
                                                 "--hidden",
                                                 "512",
                                                 "--heads",
                                                 "8",
                                                 "--sequence-length",
                                                 "512",
                                                 "--global-batch-size",
                                                 std::to_string(kMicroBatches),
                                                 "--micro-batch-size",
                                                 "1",
                                                 "--trace",
                                                 "t.json"} +
                                               flags,
                                           {.folder = folder.path()});
  CAPTURE(name_of(order), result.out, result.err);
  REQUIRE(result.status == 0);
  Recorded recorded = recorded_in(read_text(folder.path() / "t.json"));
  const std::vector<std::vector<Blocks>> chunks = chunks_in(result.out);
  const ChunkPlacement placement = placement_of(order, kStages, 2);
  const Schedule schedule = complete(make_work(order, placement, kMicroBatches), placement, true);
  REQUIRE(chunks.size() == kStages);

  std::map<std::tuple<size_t, ActionKind, size_t, size_t>, Span> spans;
  const auto key = [](size_t stage, const Action& a) {
    return std::tuple(stage, a.kind, a.micro_batch, a.chunk);
  };
  // The least time between an action of a kind and the next work: launches, and the copy of a
  // gradient that is sent. The simulator's actions follow each other at once.
  std::map<ActionKind, double> between;
  for (size_t stage = 0; stage < kStages; ++stage) {
    const Action* before = nullptr;
    for (const Action& action : schedule[stage]) {
      if (!is_work(action.kind)) continue;
      const Span span = take(recorded.work[stage], action, chunks[stage][action.chunk]);
      spans[key(stage, action)] = span;
      if (before != nullptr) {
        double& least = between.try_emplace(before->kind, 1e9).first->second;
        least = std::min(least, span.begin - spans.at(key(stage, *before)).end);
      }
      before = &action;
    }
    CHECK(recorded.work[stage].empty());
  }
  const Timeline timeline = simulate(
      schedule,
      [&](size_t stage, const Action& action) {
        if (is_work(action.kind)) {
          return spans.at(key(stage, action)).length() + between.at(action.kind);
        }
        return action.kind == ActionKind::reduce_embedding ? 0 : recorded.message;
      },
      order > Order::one_f_one_b ? Links::many : Links::few);
  // What is left: some actions are followed by more copies than others of their kind.
  const double tolerance = 0.015 * extent_of(timeline).length();
  const double start = spans.at(key(0, {})).begin;
  for (size_t stage = 0; stage < kStages; ++stage) {
    for (size_t i = 0; i < schedule[stage].size(); ++i) {
      const Action& action = schedule[stage][i];
      if (!is_work(action.kind)) continue;
      CAPTURE(stage, describe(action), tolerance);
      CHECK(std::abs(timeline[stage][i].begin - (spans.at(key(stage, action)).begin - start)) <
            tolerance);
    }
  }
}

TEST_CASE("On the virtual device each action of every schedule begins when simulate() says") {
  for (const Order order : kOrders) {
    check_order(order, order == Order::interleaved ? Flags{"--chunks", "2"} : Flags{});
  }
}

}  // namespace
}  // namespace ladder
