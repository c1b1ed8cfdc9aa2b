// The checker of schedules: it lets good ones pass and finds every kind of damage.
#include "common/schedule/check.h"

#include <algorithm>

#include "common/schedule/simulate.h"
#include "tests/catch.h"
#include "tests/common/schedule/lines.h"

namespace ladder {
namespace {

using enum ActionKind;

const std::vector<size_t> kBounds = {4, 4, 4};

// All that is wrong with it, one line each. REQUIRES: 4 micro-batches, 3 stages.
std::string problems_of(const Schedule& schedule, const std::vector<size_t>& bounds = kBounds) {
  std::string text;
  for (const std::string& problem : check_schedule(schedule, 4, bounds)) text += problem + "\n";
  return text;
}

TEST_CASE("good schedules have no problems") {
  CHECK(problems_of(good_schedule()) == "");
  const std::string naive = "F0 B0 F1 B1 F2 B2 F3 B3", gpipe = "F0 F1 F2 F3 B0 B1 B2 B3";
  CHECK(problems_of(schedule_of({naive, naive, naive})) == "");
  CHECK(problems_of(schedule_of({gpipe, gpipe, gpipe})) == "");
  const std::string reversed = "F0 F1 F2 F3 B3 B2 B1 B0";
  CHECK(problems_of(schedule_of({reversed, reversed, reversed})) == "");
  CHECK(check_schedule(schedule_of({"F0 B0 F1 B1"}), 2, {2}).empty());
}

TEST_CASE("a dropped or repeated action is found") {
  Schedule schedule = good_schedule();
  SECTION("receive") {
    schedule[1].erase(schedule[1].begin() +
                      static_cast<ptrdiff_t>(index_of(schedule[1], recv_activation, 2)));
    const std::vector<std::string> problems = check_schedule(schedule, 4, kBounds);
    REQUIRE(problems.size() == 4);  // each said once; the last is the deadlock
    CHECK(problems[0] ==
          "stage 1, forward of micro-batch 2: what is due is recv_activation of "
          "micro-batch 2 from stage 0");
    CHECK(problems[1] == "stage 0 to 1, send_activation: 4 are sent and 3 received");
    CHECK(problems[2] ==
          "stage 0 to 1, send_activation: micro-batch 2 is sent where micro-batch 3 is received");
    CHECK_THAT(problems[3], ContainsSubstring("deadlock"));
  }
  SECTION("all sends to a stage") {
    std::erase_if(schedule[0], [](const Action& a) { return a.kind == send_activation; });
    CHECK_THAT(problems_of(schedule),
               ContainsSubstring("stage 0 to 1, send_activation: 0 are sent and 4 received"));
  }
  SECTION("the last gradient") {
    schedule[1].pop_back();
    CHECK_THAT(
        problems_of(schedule),
        ContainsSubstring("stage 1, send_gradient of micro-batch 3 to stage 0: it is missing"));
    CHECK_THAT(problems_of(schedule), ContainsSubstring("deadlock"));
  }
  SECTION("backward") {
    schedule[0].insert(schedule[0].end() - 1, {backward, 3, 3});
    CHECK(problems_of(schedule) == "stage 0, backward of micro-batch 3: the micro-batch is done\n");
  }
  SECTION("a whole micro-batch") {
    for (StageSchedule& stage : schedule) {
      std::erase_if(stage, [](const Action& a) { return a.micro_batch == 3; });
    }
    CHECK_THAT(problems_of(schedule),
               ContainsSubstring("stage 0, forward of micro-batch 3: it is missing"));
  }
  SECTION("a micro-batch too many") {
    CHECK_THAT(
        problems_of(schedule_of({"F0 F1 F2 F3 F4 B0 B1 B2 B3 B4", "", ""})),
        ContainsSubstring("stage 0, forward of micro-batch 4: the step has 4 micro-batches"));
  }
}

TEST_CASE("a wrong order is found") {
  Schedule schedule = good_schedule();
  SECTION("within a micro-batch") {
    std::swap(schedule[0][0], schedule[0][1]);
    CHECK_THAT(problems_of(schedule),
               ContainsSubstring("stage 0, send_activation of micro-batch 0 to stage "
                                 "1: what is due is forward of micro-batch 0"));
  }
  SECTION("of messages: stage 0 sends 1 before 0, all else is possible") {
    schedule = schedule_of(
        {"F1 F0 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"});
    CHECK(problems_of(schedule) ==
          "stage 0 to 1, send_activation: micro-batch 1 is sent where micro-batch 0 is received\n");
  }
  SECTION("of messages of both directions: a deadlock") {
    schedule[0] = schedule_of({"F0 B0 F1 B1 F2 B2 F3 B3", "", ""})[0];
    CHECK_THAT(problems_of(schedule),
               ContainsSubstring("deadlock: stage 0 waits in recv_gradient"));
  }
}

TEST_CASE("a gradient that would be overwritten is found") {
  Schedule schedule = good_schedule();
  SECTION("by the next one received") {
    StageSchedule& stage = schedule[0];
    const size_t at = index_of(stage, backward, 1);
    std::rotate(stage.begin() + static_cast<ptrdiff_t>(at),
                stage.begin() + static_cast<ptrdiff_t>(at) + 1,
                stage.begin() + static_cast<ptrdiff_t>(at) + 2);
    REQUIRE(stage[at].kind == recv_gradient);
    CHECK(problems_of(schedule) ==
          "stage 0, recv_gradient of micro-batch 2 from stage 1: the "
          "gradient buffer still holds micro-batch 1\n");
  }
  SECTION("by the last stage's own, before it is sent") {
    StageSchedule& stage = schedule[2];
    const Action send = stage[index_of(stage, send_gradient, 2)];
    std::erase(stage, send);
    stage.insert(stage.begin() + static_cast<ptrdiff_t>(index_of(stage, send_gradient, 3)), send);
    CHECK_THAT(problems_of(schedule),
               ContainsSubstring("stage 2, backward of micro-batch 3: the gradient "
                                 "buffer still holds micro-batch 2"));
  }
}

TEST_CASE("wrong buffers are found") {
  Schedule schedule = good_schedule();
  const auto move = [&](size_t stage, size_t micro_batch, size_t buffer) {
    for (Action& action : schedule[stage]) {
      if (action.micro_batch == micro_batch) action.buffer = buffer;
    }
  };
  SECTION("used again too early") {
    move(1, 1, 0);
    CHECK(problems_of(schedule) ==
          "stage 1, recv_activation of micro-batch 1 from stage 0: buffer 0 holds micro-batch 0\n");
  }
  SECTION("used again just in time") {
    move(1, 2, 0);
    move(1, 3, 1);
    CHECK(problems_of(schedule, {4, 2, 4}) == "");
    CHECK(problems_of(schedule, {4, 1, 4}) ==
          "stage 1, recv_activation of micro-batch 1 from stage 0: 2 are in flight, allowed are 1\n"
          "stage 1, recv_activation of micro-batch 2 from stage 0: 2 are in flight, allowed are 1\n"
          "stage 1, recv_activation of micro-batch 3 from stage 0: 2 are in flight, allowed are 1\n"
          "stage 1: 2 buffers, allowed are 1\n");
  }
  SECTION("more than are needed") {
    CHECK(problems_of(schedule, {4, 2, 4}) == "stage 1: 4 buffers, allowed are 2\n");
  }
  SECTION("changed on the way") {
    schedule[2][index_of(schedule[2], backward, 1)].buffer = 0;
    CHECK(problems_of(schedule) ==
          "stage 2, backward of micro-batch 1: buffer 0, but it is in buffer 1\n");
  }
}

TEST_CASE("a misplaced sum of the embedding is found") {
  Schedule schedule = good_schedule();
  SECTION("missing") {
    schedule[0].pop_back();
    CHECK_THAT(problems_of(schedule),
               ContainsSubstring("stage 0: reduce_embedding at the end is missing"));
  }
  SECTION("too early") {
    std::iter_swap(schedule[0].end() - 1, schedule[0].end() - 2);
    CHECK_THAT(problems_of(schedule), ContainsSubstring("it is not the last action"));
  }
  SECTION("in the middle of the pipeline") {
    const size_t peer = GENERATE(0, 2);
    schedule[1].push_back({reduce_embedding, 0, 0, peer});
    CHECK_THAT(problems_of(schedule),
               ContainsSubstring(concat("stage 1, reduce_embedding with stage ", peer,
                                        ": it is between the first and the last")));
  }
  SECTION("with the wrong stage") {
    schedule[0].back().peer = 1;
    CHECK_THAT(problems_of(schedule),
               ContainsSubstring("stage 0, reduce_embedding with stage 1: it is "
                                 "between the first and the last stage"));
  }
  SECTION("alone") {
    const Schedule alone = {{{forward, 0, 0}, {backward, 0, 0}, {reduce_embedding, 0, 0, 0}}};
    CHECK_THAT(check_schedule(alone, 1, {1}).at(0),
               ContainsSubstring("between the first and the last"));
  }
}

// Every way to change one action: without it, twice, and with each other value of what it uses.
std::vector<StageSchedule> changes_of(const StageSchedule& stage, size_t at) {
  std::vector<StageSchedule> changed(2, stage);
  const auto place = static_cast<ptrdiff_t>(at);
  changed[0].erase(changed[0].begin() + place);
  changed[1].insert(changed[1].begin() + place, stage[at]);
  const auto add = [&](Action action) {
    if (action == stage[at]) return;
    changed.push_back(stage);
    changed.back()[at] = action;
  };
  const Action& old = stage[at];
  for (ActionKind kind : {forward, backward, send_activation, recv_activation, send_gradient,
                          recv_gradient, reduce_embedding}) {
    add({kind, old.micro_batch, old.buffer, old.peer});
  }
  const bool is_reduction = old.kind == reduce_embedding;
  for (size_t i = 0; i < 6; ++i) {
    if (!is_reduction) add({old.kind, i, old.buffer, old.peer});
    if (!is_reduction) add({old.kind, old.micro_batch, i, old.peer});
    const bool is_message = is_send(old.kind) || is_recv(old.kind);
    if (is_message || is_reduction) add({old.kind, old.micro_batch, old.buffer, i});
  }
  return changed;
}

TEST_CASE("no action can be dropped, repeated or changed unseen") {
  const Schedule good = good_schedule();
  size_t num_changes = 0;
  for (size_t s = 0; s < good.size(); ++s) {
    for (size_t at = 0; at < good[s].size(); ++at) {
      for (const StageSchedule& changed : changes_of(good[s], at)) {
        Schedule schedule = good;
        schedule[s] = changed;
        ++num_changes;
        INFO("stage " << s << ", " << describe(good[s][at]) << ", change " << num_changes);
        REQUIRE(problems_of(schedule) != "");
      }
    }
  }
  CHECK(num_changes > 1000);
}

TEST_CASE("in two halves, a buffer is free only after the half for the weights") {
  Schedule schedule = {{{forward, 0, 0},
                        {backward_input, 0, 0},
                        {backward_weight, 0, 0},
                        {forward, 1, 0},
                        {backward, 1, 0}}};
  CHECK(check_schedule(schedule, 2, {1}).empty());  // one split, the other not
  std::swap(schedule[0][2], schedule[0][3]);
  const std::vector<std::string> problems = check_schedule(schedule, 2, {1});
  REQUIRE(problems.size() >= 2);
  CHECK(problems[0] == "stage 0, forward of micro-batch 1: buffer 0 holds micro-batch 0");
  CHECK(problems[1] == "stage 0, forward of micro-batch 1: 2 are in flight, allowed are 1");
}

TEST_CASE("as many bounds as stages are needed") {
  CHECK_THROWS_AS(check_schedule(good_schedule(), 4, {4, 4}), Error);
}

}  // namespace
}  // namespace ladder
