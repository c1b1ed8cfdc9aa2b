// The schedules: right for every number of stages, chunks and micro-batches, with the bubble and
// the memory that the papers give.
#include "lessons/16_pipeline_schedules/schedules.h"

#include <algorithm>
#include <map>
#include <random>

#include "common/schedule/build.h"
#include "common/schedule/check.h"
#include "common/schedule/draw.h"
#include "kernels/runtime/check.h"
#include "lessons/08_pipeline_parallel/schedules.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using enum ActionKind;

struct Size {
  Order order;
  ChunkPlacement placement;
  size_t m;
};

// All orders, for 1 to 8 stages, 1 to 4 chunks and 1 to 32 micro-batches.
template <class Body>
void for_each_size(Body body) {
  for (Order order : kOrders) {
    for (size_t p = 1; p <= 8; ++p) {
      const size_t most_chunks = order == Order::interleaved ? 4 : 1;
      for (size_t v = 1; v <= most_chunks; ++v) {
        for (size_t m = 1; m <= 32; ++m) {
          if (order == Order::interleaved && m % p != 0) continue;
          CAPTURE(name_of(order), p, v, m);
          body(Size{order, placement_of(order, p, v), m});
        }
      }
    }
  }
}

Schedule schedule_of(const Size& size) {
  return complete(make_work(size.order, size.placement, size.m), size.placement, true);
}

std::vector<size_t> bounds_of(const Size& size) {
  std::vector<size_t> bounds;
  for (size_t s = 0; s < size.placement.num_stages; ++s) {
    bounds.push_back(max_in_flight(size.order, size.placement, s, size.m));
  }
  return bounds;
}

std::string problems_of(const Schedule& schedule, const Size& size) {
  std::string text;
  for (const std::string& problem :
       check_schedule(schedule, size.placement, size.m, bounds_of(size))) {
    text += problem + "\n";
  }
  return text;
}

TEST_CASE("every schedule of every size is right, and uses just as many buffers as it may") {
  for_each_size([](const Size& size) {
    const Schedule schedule = schedule_of(size);
    REQUIRE(problems_of(schedule, size) == "");
    const std::vector<size_t> bounds = bounds_of(size);
    // In a V that never gets full a stage may come by with fewer.
    if (size.order == Order::zb_v && size.m < 2 * size.placement.num_stages - 1) return;
    for (size_t s = 0; s < bounds.size(); ++s) REQUIRE(num_buffers(schedule[s]) == bounds[s]);
  });
}

TEST_CASE("without the backward of its first virtual stages every schedule is right") {
  for_each_size([](const Size& size) {
    const auto& [order, at, m] = size;
    if (m % 3 != 1 && m != at.num_stages) return;  // so that it takes seconds
    const Schedule whole = complete(make_work(order, at, m), at, false);
    REQUIRE(without_backward(whole, at, 0, Links::many) == whole);
    for (size_t first = 1; first < at.num_virtual_stages(); ++first) {
      CAPTURE(first);
      const Schedule cut = without_backward(whole, at, first, Links::many);
      const auto problems = check_schedule(cut, at, m, bounds_of(size), first);
      REQUIRE((problems.empty() ? "" : problems.front()) == "");
      REQUIRE_FALSE(check_schedule(whole, at, m, bounds_of(size), first).empty());
      REQUIRE_FALSE(check_schedule(cut, at, m, bounds_of(size), first - 1).empty());
      for (size_t s = 0; s < cut.size(); ++s) {
        // A stage without any backward has one micro-batch; in a ring each chunk may need two.
        const size_t last = at.virtual_stage_at(s, at.num_chunks - 1), chunks = at.num_chunks;
        if (last >= first || at.is_v) continue;
        REQUIRE(num_buffers(cut[s]) <= (chunks == 1 ? 1 : 2 * chunks));
      }
    }
  });
}

// All times are whole numbers, so they are exact.
TEST_CASE("on unit times a step takes as long as the formula says") {
  for_each_size([](const Size& size) {
    const Timeline timeline = simulate(schedule_of(size), uniform_costs(1, 2), Links::many);
    REQUIRE(extent_of(timeline).end ==
            static_cast<double>(unit_time(size.order, size.placement, size.m)));
    const double work = 3.0 * static_cast<double>(size.m * size.placement.num_chunks);
    for (double idle : bubble_of(schedule_of(size), timeline).idle) {
      REQUIRE(idle == std::max(0.0, 1 - work / extent_of(timeline).end));
    }
  });
}

TEST_CASE("with enough micro-batches the bubbles are the papers'") {
  // In units of a stage's forward, for p = 4: (p - 1) 3; an v-th of that; a third; half of that.
  const size_t p = 4, m = 8;
  const auto bubble = [&](Order order, size_t chunks) {
    const ChunkPlacement at = placement_of(order, p, chunks);
    const double all = static_cast<double>(unit_time(order, at, m));
    return (all - 3.0 * static_cast<double>(m * at.num_chunks)) /
           static_cast<double>(at.num_chunks);
  };
  CHECK(bubble(Order::one_f_one_b, 1) == 9);
  CHECK(bubble(Order::interleaved, 2) == 4.5);
  CHECK(bubble(Order::interleaved, 3) == 3);
  CHECK(bubble(Order::zb_h1, 1) == 3);
  CHECK(bubble(Order::zb_v, 2) == 1.5);
}

// The numbers of the README's first exercise.
TEST_CASE("with messages of a quarter of a forward ZB-H1 is faster than ZB-V") {
  const size_t p = 8, m = 16;
  const auto time = [&](Order order, double message) {
    const ChunkPlacement at = placement_of(order, p, 2);
    const double part = 1.0 / static_cast<double>(at.num_chunks);
    const std::vector<VirtualStageTimes> times(at.num_virtual_stages(), {part, part, part});
    const Schedule schedule = complete(make_work(order, at, m), at, false);
    return extent_of(simulate(schedule, costs_of(at, times, message), Links::many)).length();
  };
  CHECK(time(Order::one_f_one_b, 0) == 69);
  CHECK(time(Order::interleaved, 0) == 58.5);
  CHECK(time(Order::zb_h1, 0) == 55);
  CHECK(time(Order::zb_v, 0) == 51.5);
  CHECK(time(Order::one_f_one_b, 0.25) == 79.75);
  CHECK(time(Order::interleaved, 0.25) == 76);
  CHECK(time(Order::zb_h1, 0.25) == 65.75);
  CHECK(time(Order::zb_v, 0.25) == 68.5);
}

TEST_CASE("1F1B is lesson 08's") {
  for (size_t p = 1; p <= 8; ++p) {
    for (size_t m = 1; m <= 32; ++m) {
      CAPTURE(p, m);
      const ChunkPlacement at = placement_of(Order::one_f_one_b, p, 1);
      const Schedule ours = complete(make_work(Order::one_f_one_b, at, m), at, true);
      const Schedule theirs = make_schedule(ScheduleKind::one_f_one_b, p, m);
      REQUIRE(ours.size() == theirs.size());
      for (size_t s = 0; s < p; ++s) {
        REQUIRE(ours[s].size() == theirs[s].size());
        for (size_t i = 0; i < ours[s].size(); ++i) {
          Action action = ours[s][i];
          action.buffer = theirs[s][i].buffer;  // another free buffer may be the lowest
          REQUIRE(action == theirs[s][i]);
        }
      }
    }
  }
}

TEST_CASE("work of a kind goes through the micro-batches in order, so gradients are 1F1B's") {
  for_each_size([](const Size& size) {
    for (const StageSchedule& stage : make_work(size.order, size.placement, size.m)) {
      REQUIRE(stage.size() ==
              size.m * size.placement.num_chunks * (splits_backward(size.order) ? 3 : 2));
      std::map<std::pair<ActionKind, size_t>, size_t> next;
      for (const Action& action : stage) {
        REQUIRE(action.micro_batch == next[{action.kind, action.chunk}]++);
      }
    }
  });
}

TEST_CASE("stages of any cost and slow messages cannot make a schedule stop") {
  const auto costs = [](size_t stage, const Action& action) {
    return static_cast<double>((stage * 7 + static_cast<size_t>(action.kind) * 5 + action.chunk) %
                               11);
  };
  for_each_size(
      [&](const Size& size) { REQUIRE_NOTHROW(simulate(schedule_of(size), costs, Links::many)); });
}

// The most micro-batches that a stage has between the beginning of the half for the input and the
// end of that for the weights, each chunk counted.
size_t most_in_halves(const StageSchedule& stage) {
  size_t now = 0, most = 0;
  for (const Action& action : stage) {
    if (action.kind == backward_input) most = std::max(most, ++now);
    if (action.kind == backward_weight) --now;
  }
  return most;
}

// This is why --recompute is refused with them: what the first half computes again has to be held
// until the second one.
TEST_CASE("the last stage has nearly all its micro-batches between the halves of backward") {
  for (size_t p = 2; p <= 8; ++p) {
    for (size_t m = 2 * p; m <= 32; m += 5) {
      CAPTURE(p, m);
      const Size h1 = {Order::zb_h1, placement_of(Order::zb_h1, p, 1), m};
      CHECK(most_in_halves(schedule_of(h1).back()) == p);  // of p buffers
      const Size v = {Order::zb_v, placement_of(Order::zb_v, p, 2), m};
      CHECK(most_in_halves(schedule_of(v).back()) == 2 * p - 1);  // of 2 p
    }
  }
}

// Changes one action of a schedule. Returns false if it changed nothing.
bool damage(Schedule& schedule, std::mt19937& random) {
  const auto draw = [&](size_t count) { return static_cast<size_t>(random() % count); };
  StageSchedule& stage = schedule[draw(schedule.size())];
  const size_t at = draw(stage.size());
  const auto place = stage.begin() + static_cast<ptrdiff_t>(at);
  Action& action = stage[at];
  const Action old = action;
  const bool is_message = is_send(old.kind) || is_recv(old.kind);
  switch (draw(6)) {
    case 0:
      stage.erase(place);
      return true;
    case 1:
      stage.insert(place, old);
      return true;
    case 2:
      action.kind = static_cast<ActionKind>(draw(9));
      break;
    case 3:
      action.micro_batch = draw(12);
      return action != old && old.kind != reduce_embedding;
    case 4:
      action.chunk = draw(3);
      return action != old && old.kind != reduce_embedding;
    case 5:
      action.peer = draw(5);
      return action != old && (is_message || old.kind == reduce_embedding);
  }
  return action != old;
}

TEST_CASE("over 2,000 single damages are all found") {
  std::mt19937 random(16);
  size_t num_damages = 0;
  for (const Size& size : {Size{Order::interleaved, placement_of(Order::interleaved, 4, 2), 8},
                           Size{Order::zb_h1, placement_of(Order::zb_h1, 4, 1), 8},
                           Size{Order::zb_h2, placement_of(Order::zb_h2, 4, 1), 8},
                           Size{Order::zb_v, placement_of(Order::zb_v, 4, 2), 8}}) {
    const Schedule good = schedule_of(size);
    REQUIRE(problems_of(good, size) == "");
    for (size_t i = 0; i < 1000; ++i) {
      Schedule schedule = good;
      if (!damage(schedule, random)) continue;
      ++num_damages;
      CAPTURE(name_of(size.order), i);
      REQUIRE(problems_of(schedule, size) != "");
    }
  }
  CHECK(num_damages > 2000);
}

TEST_CASE("wrong buffers, and halves in the wrong order, are found") {
  const Size size = {Order::zb_v, placement_of(Order::zb_v, 2, 1), 4};
  const Schedule good = schedule_of(size);
  for (size_t s = 0; s < good.size(); ++s) {
    for (size_t i = 0; i < good[s].size(); ++i) {
      if (good[s][i].kind == reduce_embedding) continue;
      Schedule schedule = good;
      schedule[s][i].buffer = (good[s][i].buffer + 1) % 4;
      CAPTURE(s, i, describe(good[s][i]));
      REQUIRE(problems_of(schedule, size) != "");
      if (i + 1 == good[s].size()) continue;
      const Action &a = good[s][i], &b = good[s][i + 1];
      if (a.micro_batch != b.micro_batch || a.chunk != b.chunk) continue;
      schedule = good;
      std::swap(schedule[s][i], schedule[s][i + 1]);
      REQUIRE(problems_of(schedule, size) != "");
    }
  }
}

}  // namespace
}  // namespace ladder
