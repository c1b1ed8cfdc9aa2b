// The three schedules: right for every number of stages and micro-batches, and with the bubble and
// the memory that the papers give.
#include "lessons/08_pipeline_parallel/schedules.h"

#include <algorithm>

#include "common/schedule/check.h"
#include "common/schedule/draw.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using enum ActionKind;

constexpr ScheduleKind kKinds[] = {ScheduleKind::naive, ScheduleKind::gpipe,
                                   ScheduleKind::one_f_one_b};

// For 1 to 16 stages and 1 to 32 micro-batches.
template <class Body>
void for_each_size(Body body) {
  for (size_t p = 1; p <= 16; ++p) {
    for (size_t m = 1; m <= 32; ++m) {
      CAPTURE(p, m);
      body(p, m);
    }
  }
}

std::string problems_of(const Schedule& schedule, ScheduleKind kind, size_t m) {
  const size_t p = schedule.size();
  std::vector<size_t> bounds;
  for (size_t s = 0; s < p; ++s) bounds.push_back(max_in_flight(kind, s, p, m));
  std::string text;
  for (const std::string& problem : check_schedule(schedule, m, bounds)) text += problem + "\n";
  return text;
}

TEST_CASE("every schedule of every size is right") {
  for (ScheduleKind kind : kKinds) {
    CAPTURE(name_of(kind));
    for_each_size([&](size_t p, size_t m) {
      REQUIRE(problems_of(make_schedule(kind, p, m), kind, m) == "");
    });
  }
}

TEST_CASE("a stage holds 1, m or min(m, p - stage) micro-batches, and needs no more buffers") {
  for_each_size([](size_t p, size_t m) {
    for (size_t s = 0; s < p; ++s) {
      REQUIRE(max_in_flight(ScheduleKind::naive, s, p, m) == 1);
      REQUIRE(max_in_flight(ScheduleKind::gpipe, s, p, m) == m);
      REQUIRE(max_in_flight(ScheduleKind::one_f_one_b, s, p, m) == std::min(m, p - s));
      for (ScheduleKind kind : kKinds) {
        REQUIRE(num_buffers(make_schedule(kind, p, m)[s]) == max_in_flight(kind, s, p, m));
      }
    }
  });
}

Span span_of(const Schedule& schedule, const Timeline& timeline, size_t stage, ActionKind kind,
             size_t micro_batch) {
  const auto found = std::ranges::find_if(schedule[stage], [&](const Action& action) {
    return action.kind == kind && action.micro_batch == micro_batch;
  });
  REQUIRE(found != schedule[stage].end());
  return timeline[stage][static_cast<size_t>(found - schedule[stage].begin())];
}

// Apart from check_schedule: what the simulated times say.
TEST_CASE("no stage works on what it cannot have yet") {
  constexpr double kMessage = 0.25;
  for (ScheduleKind kind : kKinds) {
    for (const auto& [p, m] : {std::pair<size_t, size_t>{2, 1}, {3, 2}, {4, 8}, {5, 3}, {8, 16}}) {
      CAPTURE(name_of(kind), p, m);
      const Schedule schedule = make_schedule(kind, p, m);
      const Timeline timeline = simulate(schedule, uniform_costs(1, 2, kMessage));
      const auto span = [&](size_t stage, ActionKind action, size_t k) {
        return span_of(schedule, timeline, stage, action, k);
      };
      for (size_t k = 0; k < m; ++k) {
        for (size_t s = 1; s < p; ++s) {
          CHECK(span(s, forward, k).begin >= span(s - 1, forward, k).end + kMessage);
          CHECK(span(s - 1, backward, k).begin >= span(s, backward, k).end + kMessage);
        }
        CHECK(span(p - 1, backward, k).begin >= span(p - 1, forward, k).end);
        // Gradients are added up in the order of lesson 01.
        if (k > 0) CHECK(span(0, backward, k).begin >= span(0, backward, k - 1).end);
        if (k > 0 && kind == ScheduleKind::naive) {
          CHECK(span(0, forward, k).begin >= span(0, backward, k - 1).end);
        }
        if (kind == ScheduleKind::gpipe) {
          CHECK(span(0, backward, 0).begin >= span(0, forward, k).end);
        }
      }
    }
  }
}

// Times are whole numbers, so total and busy time are exact; what is left are the roundings of
// p quotients and their sum, each at most 2^-53 of a number below 1: 2 p roundings, p <= 16.
TEST_CASE("with equal stages and free messages the bubble is the papers'") {
  const double tolerance = 32 * 0x1p-53;
  const auto [f, b] = GENERATE(table<double, double>({{1, 1}, {1, 2}, {3, 2}, {2, 7}}));
  for_each_size([&](size_t p, size_t m) {
    for (ScheduleKind kind : kKinds) {
      const Schedule schedule = make_schedule(kind, p, m);
      const Timeline timeline = simulate(schedule, uniform_costs(f, b));
      const bool is_naive = kind == ScheduleKind::naive;
      const auto buffers = static_cast<double>(is_naive ? m * p : m + p - 1);
      CAPTURE(name_of(kind), f, b);
      REQUIRE(extent_of(timeline).end == buffers * (f + b));
      const Bubble bubble = bubble_of(schedule, timeline);
      const double expected = 1 - static_cast<double>(m) / buffers;
      REQUIRE(std::abs(bubble.overall - expected) <= tolerance);
      for (double idle : bubble.idle) REQUIRE(std::abs(idle - expected) <= tolerance);
    }
  });
}

TEST_CASE("stages of any cost and slow messages cannot make a schedule stop") {
  const auto costs = [](size_t stage, const Action& action) {
    return static_cast<double>((stage * 7 + static_cast<size_t>(action.kind) * 5) % 11);
  };
  for_each_size([&](size_t p, size_t m) {
    for (ScheduleKind kind : kKinds) REQUIRE_NOTHROW(simulate(make_schedule(kind, p, m), costs));
  });
}

TEST_CASE("one stage computes and nothing else") {
  for (ScheduleKind kind : kKinds) {
    const Schedule schedule = make_schedule(kind, 1, 5);
    CHECK(schedule[0].size() == 10);
    for (const Action& action : schedule[0]) {
      CHECK((action.kind == forward || action.kind == backward));
    }
  }
}

TEST_CASE("1F1B of four stages and eight micro-batches, action by action") {
  const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 4, 8);
  std::vector<std::string> begin;
  for (size_t i = 0; i < 12; ++i) begin.push_back(describe(schedule[2][i]));
  CHECK(begin == std::vector<std::string>{
                     "recv_activation of micro-batch 0 from stage 1",
                     "forward of micro-batch 0",
                     "send_activation of micro-batch 0 to stage 3",
                     "recv_activation of micro-batch 1 from stage 1",
                     "forward of micro-batch 1",
                     "send_activation of micro-batch 1 to stage 3",
                     "recv_gradient of micro-batch 0 from stage 3",
                     "backward of micro-batch 0",
                     "send_gradient of micro-batch 0 to stage 1",
                     "recv_activation of micro-batch 2 from stage 1",
                     "forward of micro-batch 2",
                     "send_activation of micro-batch 2 to stage 3",
                 });
  CHECK(describe(schedule[0].back()) == "reduce_embedding with stage 3");
  CHECK(describe(schedule[3].back()) == "reduce_embedding with stage 0");
  CHECK(draw_text(schedule, simulate(schedule, uniform_costs(1, 2))) ==
        "stage 0 |0 1 2 3 ............[0 ]4 [1 ]5 [2 ]6 [3 ]7 [4 ]..[5 ]..[6 ]..[7 ]| idle 27 %\n"
        "stage 1 |..0 1 2 ........[0 ]3 [1 ]4 [2 ]5 [3 ]6 [4 ]7 [5 ]..[6 ]..[7 ]....| idle 27 %\n"
        "stage 2 |....0 1 ....[0 ]2 [1 ]3 [2 ]4 [3 ]5 [4 ]6 [5 ]7 [6 ]..[7 ]........| idle 27 %\n"
        "stage 3 |......0 [0 ]1 [1 ]2 [2 ]3 [3 ]4 [4 ]5 [5 ]6 [6 ]7 [7 ]............| idle 27 %\n"
        "n forward, [n] backward, . idle; bubble 27.3 %\n");
}

TEST_CASE("names are the flag's, and a pipeline of nothing is an error") {
  CHECK(name_of(ScheduleKind::naive) == "naive");
  CHECK(name_of(ScheduleKind::gpipe) == "gpipe");
  CHECK(name_of(ScheduleKind::one_f_one_b) == "1f1b");
  CHECK_THROWS_AS(make_schedule(ScheduleKind::gpipe, 0, 1), Error);
  CHECK_THROWS_AS(make_schedule(ScheduleKind::gpipe, 1, 0), Error);
}

}  // namespace
}  // namespace ladder
