// The model of the executor, on schedules that can be worked out by hand.
#include "common/schedule/simulate.h"

#include "common/schedule/check.h"
#include "tests/catch.h"
#include "tests/common/schedule/lines.h"

namespace ladder {
namespace {

using enum ActionKind;

void check_span(const Schedule& schedule, const Timeline& timeline, size_t stage, ActionKind kind,
                size_t micro_batch, double begin, double end) {
  INFO("stage " << stage << ", " << name_of(kind) << " of " << micro_batch);
  const Span& span = timeline[stage][index_of(schedule[stage], kind, micro_batch)];
  CHECK(span.begin == begin);
  CHECK(span.end == end);
}

std::string message_of(const Schedule& schedule) {
  try {
    simulate(schedule, uniform_costs(1, 2));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("one stage computes without a pause") {
  const Schedule schedule = schedule_of({"F0 B0 F1 B1"});
  const Timeline timeline = simulate(schedule, uniform_costs(1, 2));
  check_span(schedule, timeline, 0, forward, 0, 0, 1);
  check_span(schedule, timeline, 0, backward, 0, 1, 3);
  check_span(schedule, timeline, 0, forward, 1, 3, 4);
  check_span(schedule, timeline, 0, backward, 1, 4, 6);
  CHECK(bubble_of(schedule, timeline).overall == 0);
}

TEST_CASE("a message takes its time, in the background of its sender, and holds its receiver up") {
  const Schedule schedule = schedule_of({"F0 F1 B0 B1", "F0 B0 F1 B1"});
  const Timeline timeline = simulate(schedule, uniform_costs(1, 2, 0.5));
  check_span(schedule, timeline, 0, forward, 1, 1, 2);
  check_span(schedule, timeline, 0, send_activation, 0, 1, 1.5);
  check_span(schedule, timeline, 1, recv_activation, 0, 0, 1.5);
  check_span(schedule, timeline, 1, backward, 0, 2.5, 4.5);
  check_span(schedule, timeline, 1, send_gradient, 0, 4.5, 5);
  check_span(schedule, timeline, 0, recv_gradient, 0, 2, 5);
  check_span(schedule, timeline, 0, backward, 0, 5, 7);
}

TEST_CASE("an eager message waits for nobody, and lies at its receiver until that wants it") {
  const Schedule schedule = schedule_of({"F0 F1 B0 B1", "F0 B0 F1 B1"});
  const Timeline timeline = simulate(schedule, uniform_costs(1, 2, 0.5), Links::eager);
  check_span(schedule, timeline, 0, send_activation, 1, 2, 2.5);
  check_span(schedule, timeline, 1, recv_activation, 1, 4.5, 4.5);
  check_span(schedule, timeline, 1, backward, 1, 5.5, 7.5);
  check_span(schedule, timeline, 0, recv_gradient, 1, 7, 8);
  // A stage takes from its first work to its last, however late it begins.
  CHECK(longest_stage(schedule, timeline) == 10);
  Schedule unfinished = schedule;
  std::erase_if(unfinished[1], [](const Action& action) { return action.kind == recv_activation; });
  CHECK_THROWS_WITH(simulate(unfinished, uniform_costs(1, 2), Links::eager),
                    ContainsSubstring("2 from stage 0 are not received"));
}

TEST_CASE("a send completes when it is received, and the next on its channel begins then") {
  const Schedule schedule = schedule_of({"F0 F1 B0 B1", "F0 B0 F1 B1"});
  const Timeline timeline = simulate(schedule, uniform_costs(1, 2, 0.5));
  // Stage 1 has no time for micro-batch 1 before it has sent the gradient of 0.
  check_span(schedule, timeline, 0, send_activation, 1, 2, 5);
  check_span(schedule, timeline, 1, recv_activation, 1, 4.5, 5);
  check_span(schedule, timeline, 1, backward, 1, 6, 8);
}

TEST_CASE("a receive waits for what its stage still sends on the same channel") {
  const std::string gpipe = "F0 F1 B0 B1";
  const Schedule schedule = schedule_of({gpipe, gpipe, gpipe});
  const Timeline timeline = simulate(schedule, uniform_costs(1, 2, 10));
  check_span(schedule, timeline, 0, send_activation, 1, 2, 32);
  check_span(schedule, timeline, 1, send_activation, 0, 12, 22);
  check_span(schedule, timeline, 1, recv_activation, 1, 12, 32);
}

TEST_CASE("messages to several stages share the channel, messages from several come as asked for") {
  const Schedule to_two = {{{send_activation, 0, 0, 1}, {send_activation, 1, 0, 2}},
                           {{recv_activation, 0, 0, 0}},
                           {{recv_activation, 1, 0, 0}}};
  check_span(to_two, simulate(to_two, uniform_costs(1, 2, 10)), 2, recv_activation, 1, 0, 20);
  const Schedule from_two = {{{send_activation, 0, 0, 2}},
                             {{forward, 1, 0}, {send_activation, 1, 0, 2}},
                             {{recv_activation, 1, 0, 1}, {recv_activation, 0, 0, 0}}};
  const Timeline timeline = simulate(from_two, uniform_costs(5, 2, 10));
  check_span(from_two, timeline, 2, recv_activation, 1, 0, 15);
  check_span(from_two, timeline, 2, recv_activation, 0, 15, 25);
}

TEST_CASE("backward waits until the gradient that is still being sent has left the buffer") {
  const Schedule schedule = schedule_of({"F0 F1 F2 F3 B0 B1 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"});
  const auto slow_first = [](size_t stage, const Action& action) {
    if (!is_work(action.kind)) return 0.0;
    return stage == 0 ? 10.0 : 1.0;
  };
  const Timeline timeline = simulate(schedule, slow_first);
  check_span(schedule, timeline, 1, backward, 0, 11, 12);
  check_span(schedule, timeline, 1, send_gradient, 0, 12, 40);
  check_span(schedule, timeline, 1, forward, 1, 20, 21);
  check_span(schedule, timeline, 1, backward, 1, 40, 41);
}

TEST_CASE("the sum of the embedding holds up both stages until both are there") {
  const Schedule schedule = schedule_of({"F0 B0", "F0 B0"});
  const auto costs = [](size_t stage, const Action& action) {
    if (action.kind == reduce_embedding) return stage == 0 ? 3.0 : 4.0;
    return action.kind == send_gradient ? 7.0 : 1.0;
  };
  const Timeline timeline = simulate(schedule, costs);
  check_span(schedule, timeline, 0, backward, 0, 11, 12);
  check_span(schedule, timeline, 1, reduce_embedding, 0, 4, 16);
  check_span(schedule, timeline, 0, reduce_embedding, 0, 12, 16);
}

TEST_CASE("the sum of the embedding waits for work and messages of both stages") {
  const Schedule late = {{{reduce_embedding, 0, 0, 1}}, {{forward}, {reduce_embedding, 0, 0, 0}}};
  check_span(late, simulate(late, uniform_costs(5, 1, 1)), 0, reduce_embedding, 0, 0, 6);
  const bool first_sends = GENERATE(true, false);
  Schedule schedule = {{{send_activation, 0, 0, 1}, {reduce_embedding, 0, 0, 1}},
                       {{reduce_embedding, 0, 0, 0}, {recv_activation, 0, 0, 0}}};
  if (!first_sends) {
    schedule = {{{reduce_embedding, 0, 0, 1}, {recv_activation, 0, 0, 1}},
                {{send_activation, 0, 0, 0}, {reduce_embedding, 0, 0, 0}}};
  }
  CHECK_THAT(message_of(schedule),
             ContainsSubstring("stage 0 waits in reduce_embedding with stage 1") &&
                 ContainsSubstring("stage 1 waits in reduce_embedding with stage 0"));
  const Schedule crossed = {
      {{reduce_embedding, 0, 0, 1}}, {{reduce_embedding, 0, 0, 2}}, {{reduce_embedding, 0, 0, 1}}};
  CHECK(message_of(crossed) ==
        "deadlock: stage 0 waits in reduce_embedding with stage 1; stage 1 is done; "
        "stage 2 is done");
}

TEST_CASE("idle time and the bubble are shares of all time, wherever it begins") {
  const Schedule schedule = schedule_of({"F0 B0", "F0 B0"});
  Timeline timeline = simulate(schedule, uniform_costs(1, 3));
  for (auto& stage : timeline) {
    for (Span& span : stage) span = {span.begin + 100, span.end + 100};
  }
  timeline[1][index_of(schedule[1], forward)].end -= 0.5;
  const Bubble bubble = bubble_of(schedule, timeline);
  CHECK(extent_of(timeline).begin == 100);
  CHECK(extent_of(timeline).end == 108);
  CHECK(bubble.idle == std::vector{0.5, 0.5625});
  CHECK(bubble.overall == 0.53125);
  CHECK(bubble_of(schedule, simulate(schedule, uniform_costs(0, 0))).overall == 0);
}

// Every stage's order is possible, and between stages nothing contradicts it: with room for one
// message more on the way this runs. But stage 2 cannot start backward 1 before stage 1 has taken
// gradient 0; stage 1 does so after it has received activation 3; it begins to when its send of 2
// has completed; and that stage 2 receives after backward 1.
TEST_CASE("GPipe's order before 1F1B's relies on buffering, which the fourth micro-batch shows") {
  const Schedule three =
      schedule_of({"F0 F1 F2 B0 B1 B2", "F0 F1 F2 B0 B1 B2", "F0 B0 F1 B1 F2 B2"});
  CHECK(message_of(three) == "no error");
  const std::string gpipe = "F0 F1 F2 F3 B0 B1 B2 B3";
  const Schedule four = schedule_of({gpipe, gpipe, "F0 B0 F1 B1 F2 B2 F3 B3"});
  CHECK(message_of(four) ==
        "deadlock: "
        "stage 0 waits in recv_gradient of micro-batch 0 from stage 1, "
        "send_activation of micro-batch 3 to stage 1 is not received; "
        "stage 1 waits in recv_activation of micro-batch 3 from stage 0, "
        "send_activation of micro-batch 2 to stage 2 is not received; "
        "stage 2 waits in backward of micro-batch 1, "
        "send_gradient of micro-batch 0 to stage 1 is not received");
  // All else is well.
  CHECK(check_schedule(four, 4, {4, 4, 4}) == std::vector{message_of(four)});
}

TEST_CASE("two stages that both send first, or both receive first, wait for each other") {
  const Schedule schedule = {{{send_activation, 0, 0, 1}, {recv_activation, 1, 0, 1}},
                             {{send_activation, 1, 0, 0}, {recv_activation, 0, 0, 0}}};
  CHECK(message_of(schedule) ==
        "deadlock: stage 0 waits in recv_activation of micro-batch 1 from stage 1, "
        "send_activation of micro-batch 0 to stage 1 is not received; "
        "stage 1 waits in recv_activation of micro-batch 0 from stage 0, "
        "send_activation of micro-batch 1 to stage 0 is not received");
  Schedule one_receives = schedule;
  std::swap(one_receives[1][0], one_receives[1][1]);
  CHECK(message_of(one_receives) == "no error");
  std::swap(one_receives[0][0], one_receives[0][1]);
  CHECK(message_of(one_receives) ==
        "deadlock: stage 0 waits in recv_activation of micro-batch 1 from stage 1; "
        "stage 1 waits in recv_activation of micro-batch 0 from stage 0");
}

TEST_CASE("what never gets an answer is a deadlock") {
  Schedule schedule = schedule_of({"F0 B0", "F0 B0"});
  SECTION("a receive without its send") {
    schedule[0].erase(schedule[0].begin() + 1);
    CHECK_THAT(message_of(schedule),
               ContainsSubstring("stage 1 waits in recv_activation of micro-batch 0 from stage 0"));
  }
  SECTION("a send without its receive, at the end of all") {
    const Schedule lonely = {{{forward, 0, 0}, {send_activation, 0, 0, 1}}, {}};
    CHECK(message_of(lonely) ==
          "deadlock: stage 0 is done, send_activation of micro-batch 0 to stage 1 is not received; "
          "stage 1 is done");
  }
  SECTION("an embedding's sum that the other stage does not join") {
    schedule[1].pop_back();
    CHECK_THAT(message_of(schedule),
               ContainsSubstring("stage 0 waits in reduce_embedding with stage 1"));
  }
}

TEST_CASE("a peer that is no other stage is an error") {
  const auto [kind, peer] = GENERATE(table<ActionKind, size_t>({
      {send_activation, 2},
      {recv_gradient, 2},
      {reduce_embedding, 0},
      {reduce_embedding, 2},
  }));
  const Schedule schedule = {{{kind, 0, 0, peer}}, {}};
  CHECK_THAT(message_of(schedule),
             ContainsSubstring("stage 0 of 2") && ContainsSubstring("no other stage"));
}

TEST_CASE("a message from a stage to itself takes no time, and is sent before it is received") {
  const Schedule good = {{{forward, 0, 0, 0, 0},
                          {send_activation, 0, 0, 0, 0},
                          {recv_activation, 0, 1, 0, 1},
                          {forward, 0, 1, 0, 1}}};
  CHECK(extent_of(simulate(good, uniform_costs(1, 2, 5))).end == 2);
  Schedule bad = good;
  SECTION("received first") {
    std::swap(bad[0][1], bad[0][2]);
    CHECK_THAT(message_of(bad), ContainsSubstring("stage 0 waits in recv_activation of chunk 1"));
  }
  SECTION("sent to the same chunk") {
    bad[0][2].chunk = 0;
    CHECK_THAT(message_of(bad), ContainsSubstring("deadlock"));
  }
  SECTION("never received") {
    bad[0].erase(bad[0].begin() + 2);
    CHECK_THAT(message_of(bad),
               ContainsSubstring("send_activation of micro-batch 0 to stage 0 is not received"));
  }
}

// Two stages that send to each other first and receive then. With a channel each for the two
// directions both receives find their message.
TEST_CASE("messages of a kind go both ways at once") {
  const Schedule schedule = {{{send_activation, 0, 0, 1, 0}, {recv_activation, 1, 1, 1, 1}},
                             {{send_activation, 1, 0, 0, 0}, {recv_activation, 0, 1, 0, 1}}};
  CHECK(extent_of(simulate(schedule, uniform_costs(1, 2, 5), Links::many)).end == 5);
}

TEST_CASE("the weights' half of backward does not wait for the gradient that is being sent") {
  const Schedule schedule = {{{recv_gradient, 0, 0, 1}},
                             {{backward_input, 0, 0},
                              {send_gradient, 0, 0, 0},
                              {backward_weight, 0, 0},
                              {backward_input, 1, 1}}};
  CHECK(simulate(schedule, uniform_costs(1, 2, 5))[1][2].end == 2);
  CHECK(simulate(schedule, uniform_costs(1, 2, 5))[1][3].begin == 6);
  CHECK(simulate(schedule, uniform_costs(1, 2, 5), Links::many)[1][3].begin == 2);
}

// Each of three stages sends a gradient on and then receives one.
TEST_CASE("a ring needs outgoing buffers, and a link for even and for odd stages") {
  Schedule schedule(3);
  for (size_t s = 0; s < 3; ++s) {
    const size_t before = (s + 2) % 3, after = (s + 1) % 3;
    schedule[s] = {{send_gradient, s, 0, before}, {recv_gradient, after, 0, after}};
  }
  CHECK_THROWS_AS(simulate(schedule, uniform_costs(1, 2)), Error);
  CHECK(extent_of(simulate(schedule, uniform_costs(1, 2, 5), Links::many)).end == 5);
  std::swap(schedule[0][0], schedule[0][1]);
  CHECK(extent_of(simulate(schedule, uniform_costs(1, 2, 5), Links::many)).end == 10);
}

TEST_CASE("a link has room for one gradient, and another one waits") {
  const Schedule schedule = {
      {{backward_input, 0, 0}, {recv_gradient, 0, 0, 1}, {recv_gradient, 1, 0, 1}},
      {{send_gradient, 0, 0, 0}, {send_gradient, 1, 0, 0}, {backward_weight, 0, 0}}};
  const Timeline timeline = simulate(schedule, uniform_costs(1, 6, 5), Links::many);
  CHECK(timeline[1][0].end == 8);
  CHECK(timeline[1][2].begin == 8);
}

TEST_CASE("a micro-batch is put into a buffer when the output that was there has gone") {
  // The second stage works for 6 before it receives, which takes 5.
  const Schedule schedule = {
      {{forward, 0, 0}, {send_activation, 0, 0, 1}, {forward, 1, 0}, {send_activation, 1, 0, 1}},
      {{backward, 0}, {recv_activation, 0, 0, 0}, {recv_activation, 1, 1, 0}}};
  const Timeline timeline = simulate(schedule, uniform_costs(1, 6, 5));
  CHECK(timeline[0][1].end == 11);
  CHECK(timeline[0][2].begin == 11);
  // In another buffer it need not wait.
  Schedule two = schedule;
  two[0][2].buffer = two[0][3].buffer = 1;
  CHECK(simulate(two, uniform_costs(1, 6, 5))[0][2].begin == 1);
  CHECK(simulate(schedule, uniform_costs(1, 6, 5), Links::eager)[0][2].begin == 1);
}

TEST_CASE("without backward a stage holds a micro-batch until its output has gone") {
  const StageSchedule forwards = {{forward, 0}, {send_activation, 0}, {forward, 1}};
  CHECK(held_over_time(forwards, {{0, 1}, {1, 3}, {4, 5}}) == HeldOverTime{{0, 1}, {3, 0}, {4, 1}});
}

TEST_CASE("a stage holds a micro-batch from its forward's beginning to its backward's end") {
  const StageSchedule whole = {{forward, 0}, {forward, 1}, {backward, 0}, {backward, 1}};
  CHECK(held_over_time(whole, {{1, 2}, {3, 4}, {4, 6}, {7, 9}}) ==
        HeldOverTime{{1, 1}, {3, 2}, {6, 1}, {9, 0}});
  const StageSchedule halves = {
      {forward, 0}, {backward_input, 0}, {forward, 1}, {backward_weight, 0}};
  // One comes as the other goes.
  CHECK(held_over_time(halves, {{0, 1}, {1, 2}, {3, 4}, {2, 3}}) == HeldOverTime{{0, 1}, {3, 1}});
}

TEST_CASE("an empty timeline has no extent") {
  CHECK_THROWS_AS(extent_of({}), Error);
  CHECK_THROWS_AS(extent_of({{}, {}}), Error);
}

}  // namespace
}  // namespace ladder
