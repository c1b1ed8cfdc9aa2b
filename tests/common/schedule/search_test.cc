// Schedules that are made and found: complete lists, greedy ones, and the search.
#include "common/schedule/search.h"

#include <map>
#include <random>

#include "common/schedule/check.h"
#include "common/schedule/greedy.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using enum ActionKind;

TEST_CASE("a placement is looped or a V") {
  const ChunkPlacement looped = {3, 2, false}, v = {3, 2, true};
  const auto stages = [](const ChunkPlacement& placement) {
    std::vector<size_t> found;
    for (size_t part = 0; part < placement.num_virtual_stages(); ++part) {
      const StageChunk there = placement.chunk_of(part);
      CHECK(placement.virtual_stage_at(there.stage, there.chunk) == part);
      found.push_back(there.stage);
    }
    return found;
  };
  CHECK(stages(looped) == std::vector<size_t>{0, 1, 2, 0, 1, 2});
  CHECK(stages(v) == std::vector<size_t>{0, 1, 2, 2, 1, 0});
  CHECK(stages({2, 3, true}) == std::vector<size_t>{0, 1, 1, 0, 0, 1});
}

std::string text_of(const StageSchedule& stage) {
  std::string text;
  for (const Action& action : stage) text += describe(action) + "\n";
  return text;
}

TEST_CASE("work gets messages, copies and buffers") {
  const ChunkPlacement v = {2, 2, true};
  const Schedule work = {
      {{forward, 0}, {.kind = forward, .chunk = 1}, {.kind = backward, .chunk = 1}, {backward, 0}},
      {{forward, 0},
       {.kind = forward, .chunk = 1},
       {.kind = backward_input, .chunk = 1},
       {backward, 0},
       {.kind = backward_weight, .chunk = 1}}};
  const Schedule schedule = complete(work, v, true);
  CHECK(text_of(schedule[0]) ==
        "forward of micro-batch 0\n"
        "send_activation of micro-batch 0 to stage 1\n"
        "recv_activation of chunk 1 of micro-batch 0 from stage 1\n"
        "forward of chunk 1 of micro-batch 0\n"
        "backward of chunk 1 of micro-batch 0\n"
        "send_gradient of chunk 1 of micro-batch 0 to stage 1\n"
        "recv_gradient of micro-batch 0 from stage 1\n"
        "backward of micro-batch 0\n");
  CHECK(text_of(schedule[1]) ==
        "recv_activation of micro-batch 0 from stage 0\n"
        "forward of micro-batch 0\n"
        "send_activation of micro-batch 0 to stage 1\n"
        "recv_activation of chunk 1 of micro-batch 0 from stage 1\n"
        "forward of chunk 1 of micro-batch 0\n"
        "send_activation of chunk 1 of micro-batch 0 to stage 0\n"
        "recv_gradient of chunk 1 of micro-batch 0 from stage 0\n"
        "backward_input of chunk 1 of micro-batch 0\n"
        "send_gradient of chunk 1 of micro-batch 0 to stage 1\n"
        "recv_gradient of micro-batch 0 from stage 1\n"
        "backward of micro-batch 0\n"
        "send_gradient of micro-batch 0 to stage 0\n"
        "backward_weight of chunk 1 of micro-batch 0\n");
  CHECK(check_schedule(schedule, v, 1, {2, 2}).empty());
  // In a line the first and the last part are on two stages, which sum their copies of the table.
  const ChunkPlacement line = {2, 1, false};
  const Schedule sums =
      complete({{{forward, 0}, {backward, 0}}, {{forward, 0}, {backward, 0}}}, line, true);
  CHECK(sums[0].back() == Action{.kind = reduce_embedding, .peer = 1});
  CHECK(sums[1].back() == Action{.kind = reduce_embedding, .peer = 0});
  CHECK(check_schedule(sums, line, 1, {1, 1}).empty());
}

ScheduleProblem problem_of(const ChunkPlacement& placement, size_t m, size_t buffers) {
  return {.placement = placement,
          .num_micro_batches = m,
          .times = std::vector<VirtualStageTimes>(placement.num_virtual_stages()),
          .message = 0,
          .max_buffers = std::vector<size_t>(placement.num_stages, buffers)};
}

TEST_CASE("rules alone come near ZB-H1 with its p buffers on each stage") {
  for (size_t p = 1; p <= 6; ++p) {
    const ScheduleProblem problem = problem_of({p, 1, false}, 12, p);
    CAPTURE(p);
    CHECK(time_of(problem, find_work(problem, {}, 0)) <= 1.05 * static_cast<double>(36 + p - 1));
  }
}

TEST_CASE("with one buffer one micro-batch after the other goes through") {
  const ScheduleProblem problem = problem_of({3, 1, false}, 4, 1);
  // Three forwards, three halves for the input, and the first stage's other half, which frees its
  // buffer.
  CHECK(time_of(problem, find_work(problem, {}, 100)) == 4 * (3 + 3 + 1));
}

TEST_CASE("nothing fits into fewer buffers than chunks") {
  CHECK(find_work(problem_of({2, 2, true}, 4, 1), {}, 100).empty());
  CHECK_FALSE(find_work(problem_of({2, 2, true}, 4, 2), {}, 100).empty());
}

TEST_CASE("what is found is right and in the order of the micro-batches, for any times") {
  std::mt19937 random(3);
  const auto between = [&](size_t least, size_t most) {
    return least + random() % (most - least + 1);
  };
  for (size_t i = 0; i < 60; ++i) {
    const size_t p = between(1, 5), v = between(1, 2), m = between(1, 12);
    const bool is_v = v == 2 && between(0, 1) == 1;
    ScheduleProblem problem = problem_of({p, v, is_v}, m, between(v, 2 * p * v));
    for (VirtualStageTimes& part : problem.times) {
      for (double* time : {&part.forward, &part.input, &part.weight}) {
        *time = static_cast<double>(between(5, 15));
      }
    }
    problem.message = static_cast<double>(between(0, 3));
    CAPTURE(i, p, v, is_v, m, problem.max_buffers[0]);
    const Schedule work = find_work(problem, {}, 50);
    if (work.empty()) {
      // A loop needs more buffers than a V: micro-batches come in the order of the stage before.
      CHECK((v == 2 && !is_v));
      continue;
    }
    const Schedule schedule = complete(work, problem.placement, true);
    const std::vector<std::string> problems =
        check_schedule(schedule, problem.placement, m, problem.max_buffers);
    INFO((problems.empty() ? "" : problems.front()));
    REQUIRE(problems.empty());
    for (const StageSchedule& stage : work) {
      std::map<std::pair<ActionKind, size_t>, size_t> next;
      for (const Action& action : stage) {
        const bool is_whole = action.kind == backward;
        REQUIRE(action.micro_batch ==
                next[{is_whole ? backward_input : action.kind, action.chunk}]++);
      }
    }
  }
}

TEST_CASE("without halves only whole backwards are found, and not slower than 1F1B") {
  ScheduleProblem problem = {.placement = {4, 1, false},
                             .num_micro_batches = 8,
                             .times = std::vector<VirtualStageTimes>(4),
                             .max_buffers = {4, 4, 4, 4},
                             .splits = false};
  const Schedule work = find_work(problem, {}, 100);
  for (const StageSchedule& stage : work) {
    for (const Action& action : stage) CHECK((action.kind == forward || action.kind == backward));
  }
  CHECK(time_of(problem, work) <= 3 * (8 + 4 - 1));
}

// Greedy lists and found ones keep to the buffers of each stage, which differ, and are no slower
// than a list that fits in the same buffers.
TEST_CASE("each stage has its own limit of buffers") {
  std::mt19937 random(7);
  const auto between = [&](size_t least, size_t most) {
    return least + random() % (most - least + 1);
  };
  for (size_t i = 0; i < 100; ++i) {
    const size_t p = between(2, 5), v = between(1, 2), m = between(1, 10);
    const ChunkPlacement at = {p, v, v == 2};
    ScheduleProblem problem = problem_of(at, m, 0);
    for (VirtualStageTimes& part : problem.times) {
      part = {static_cast<double>(between(5, 15)), static_cast<double>(between(5, 15)),
              static_cast<double>(between(5, 15))};
    }
    problem.message = static_cast<double>(between(0, 3));
    for (size_t& buffers : problem.max_buffers) buffers = between(v, 2 * v * p);
    const auto keeps_to = [&](const Schedule& work) {
      const Schedule schedule = complete(work, at, true);
      for (size_t stage = 0; stage < p; ++stage) {
        if (num_buffers(schedule[stage]) > problem.max_buffers[stage]) return false;
      }
      return true;
    };
    CAPTURE(i, p, v, m, problem.max_buffers);
    const Schedule found = find_work(problem, {}, 30);
    REQUIRE_FALSE(found.empty());
    CHECK(keeps_to(found));
    for (const bool prefers_forward : {false, true}) {
      const Schedule greedy = greedy_work(problem, {.prefers_forward = prefers_forward});
      REQUIRE_FALSE(greedy.empty());
      CHECK(keeps_to(greedy));
      // The same list is found again where every stage has just the buffers that it takes.
      ScheduleProblem exact = problem;
      const Schedule schedule = complete(greedy, at, true);
      // The first stage waits for nobody: it runs ahead as far as its own buffers allow.
      if (v == 1 && prefers_forward) {
        CHECK(num_buffers(schedule[0]) == std::min(m, problem.max_buffers[0]));
      }
      for (size_t stage = 0; stage < p; ++stage) {
        exact.max_buffers[stage] = num_buffers(schedule[stage]);
      }
      const double span =
          extent_of(simulate(schedule, costs_of(at, problem.times, problem.message), Links::many))
              .length();
      CHECK(time_of(problem, greedy) == Approx(span));
      CHECK(time_of(exact, greedy) == time_of(problem, greedy));
      CHECK(time_of(exact, find_work(exact, {greedy}, 0)) <= time_of(exact, greedy));
      for (size_t& buffers : exact.max_buffers) {
        --buffers;
        CHECK(time_of(exact, greedy) > 1e300);
        ++buffers;
      }
    }
  }
}

TEST_CASE("between the halves of backward only a part of the memory may be kept") {
  // The second forward begins when the first micro-batch is between its halves.
  const Schedule work = {{{forward, 0},
                          {backward_input, 0},
                          {forward, 1},
                          {backward_weight, 0},
                          {backward_input, 1},
                          {backward_weight, 1}}};
  ScheduleProblem problem = problem_of({1, 1, false}, 2, 1);
  CHECK(time_of(problem, work) > 1e300);
  problem.kept_for_weights = 0.25;
  CHECK(time_of(problem, work) > 1e300);
  problem.kept_for_weights = 0;
  CHECK(time_of(problem, work) == 6);
  problem = problem_of({1, 1, false}, 2, 2);
  CHECK(time_of(problem, work) == 6);
  // A list by a rule keeps to it.
  problem = problem_of({4, 1, false}, 12, 5);
  problem.kept_for_weights = 0.5;
  CHECK(time_of(problem, greedy_work(problem, {})) < 1e300);
}

TEST_CASE("a step ends with its last stage, or is as long as its longest one") {
  const Schedule work = {{{forward, 0}, {backward, 0}}, {{forward, 0}, {backward, 0}}};
  ScheduleProblem problem = problem_of({2, 1, false}, 1, 1);
  problem.times[0] = {1, 1, 0};
  problem.times[1] = {3, 4, 5};
  problem.message = 0.5;
  CHECK(time_of(problem, work) == 15);  // 1 + 0.5 + 3 + 9 + 0.5 + 1
  problem.ends_together = false;
  CHECK(time_of(problem, work) == 15);  // stage 0 waits for all of it
  const Schedule halves = {{{forward, 0}, {backward_input, 0}, {backward_weight, 0}},
                           {{forward, 0}, {backward_input, 0}, {backward_weight, 0}}};
  CHECK(time_of(problem, halves) == 12);  // stage 1's; stage 0 ends after 1 + 0.5 + 7 + 0.5 + 1
  problem.ends_together = true;
  CHECK(time_of(problem, halves) == 13.5);
}

TEST_CASE("more trials are never worse, and known lists are never missed") {
  std::mt19937 random(5);
  ScheduleProblem problem = problem_of({4, 1, false}, 8, 4);
  for (size_t i = 0; i < 10; ++i) {
    for (VirtualStageTimes& part : problem.times)
      part.forward = 1 + static_cast<double>(random() % 10);
    const Schedule few = find_work(problem, {}, 0), many = find_work(problem, {}, 300);
    CHECK(time_of(problem, many) <= time_of(problem, few));
    CHECK(time_of(problem, find_work(problem, {many}, 0)) <= time_of(problem, many));
  }
}

}  // namespace
}  // namespace ladder
