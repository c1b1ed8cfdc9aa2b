#include "lessons/16_pipeline_schedules/schedules.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "kernels/runtime/check.h"
#include "lessons/08_pipeline_parallel/schedules.h"

namespace ladder {
namespace {

using enum ActionKind;

// Lists the work of one stage. Each kind of work of a chunk goes through the micro-batches in
// order.
class WorkList {
 public:
  explicit WorkList(size_t num_micro_batches) : num_micro_batches_(num_micro_batches) {}

  // Adds the work for the next micro-batch, or nothing if none is left.
  void add(ActionKind kind, size_t chunk = 0) {
    size_t& next = next_[{kind, chunk}];
    if (next < num_micro_batches_) {
      work_.push_back({.kind = kind, .micro_batch = next, .chunk = chunk});
    }
    ++next;
  }
  // Returns how often add() has been called.
  size_t count(ActionKind kind, size_t chunk = 0) { return next_[{kind, chunk}]; }
  StageSchedule take() { return std::move(work_); }

 private:
  size_t num_micro_batches_;
  StageSchedule work_;
  std::map<std::pair<ActionKind, size_t>, size_t> next_;
};

// Returns how many forwards a stage runs before forward and backward take turns. A micro-batch has
// come back to its first chunk on stage s when it has been through p v virtual stages. With several
// chunks a stage runs p forwards of each but the last one, and then two for each stage after it:
// until the backward comes, that stage runs one forward and passes it on, and one backward.
size_t num_warm_up(const ChunkPlacement& at, size_t s) {
  const size_t after = at.num_stages - 1 - s;
  return at.num_chunks == 1 ? after : 2 * after + (at.num_chunks - 1) * at.num_stages;
}

// The work of one of lesson 08's lists.
StageSchedule simple_work(ScheduleKind kind, size_t p, size_t s, size_t m) {
  StageSchedule work = make_schedule(kind, p, m)[s];
  std::erase_if(work, [](const Action& action) { return !is_work(action.kind); });
  return work;
}

// 1F1B, with any number of chunks. Micro-batches go through the chunks in groups of p.
StageSchedule interleaved_work(const ChunkPlacement& at, size_t s, size_t m) {
  const size_t p = at.num_stages, v = at.num_chunks, warm_up = num_warm_up(at, s);
  StageSchedule work;
  const auto add = [&](ActionKind kind, size_t i) {
    const size_t group = i / (p * v), in_group = i % (p * v), chunk = in_group / p;
    work.push_back({.kind = kind,
                    .micro_batch = group * p + in_group % p,
                    .chunk = kind == forward ? chunk : v - 1 - chunk});
  };
  for (size_t i = 0; i < m * v + warm_up; ++i) {
    if (i < m * v) add(forward, i);
    if (i >= warm_up) add(backward, i - warm_up);
  }
  return work;
}

// ZB-H1. Stage s runs as many forwards ahead as in 1F1B, p - 1 - s. It puts off its first s halves
// for the weights, and does them at the end, when 1F1B waits. In between it runs the three in turn.
// So every stage holds p micro-batches.
StageSchedule zb_h1_work(size_t p, size_t s, size_t m) {
  WorkList work(m);
  for (size_t k = 0; k < p - s; ++k) work.add(forward);
  for (size_t k = 0; k < m; ++k) {
    work.add(backward_input);
    if (k >= s) work.add(backward_weight);
    work.add(forward);
  }
  while (work.count(backward_weight) < m) work.add(backward_weight);
  return work.take();
}

// ZB-H2 is ZB-H1 of every second stage, on 2 p - 1 of them.
StageSchedule zb_h2_work(size_t p, size_t s, size_t m) { return zb_h1_work(2 * p - 1, 2 * s, m); }

// ZB-V. Chunk 0 goes down the stages and chunk 1 comes back up. With fewer than 2 p - 1
// micro-batches it is the list for 2 p - 1 without those that do not exist.
StageSchedule zb_v_work(size_t p, size_t s, size_t m) {
  WorkList work(m);
  const size_t n = std::max(m, 2 * p - 1);
  const auto backward_of = [&](size_t chunk) {
    work.add(backward_input, chunk);
    work.add(backward_weight, chunk);
  };
  // Until the first micro-batch has come down to the last stage and back up to this one.
  for (size_t k = 0; k < 2 * (p - s) - 1; ++k) work.add(forward, 0);
  for (size_t k = 0; k < s; ++k) {
    work.add(forward, 1);
    work.add(forward, 0);
  }
  // Until its gradient has come down to the last stage and back up.
  for (size_t k = 0; k < p - s; ++k) {
    work.add(forward, 1);
    backward_of(1);
  }
  while (work.count(forward, 1) < n) {
    if (work.count(forward, 0) < n) work.add(forward, 0);
    backward_of(0);
    work.add(forward, 1);
    backward_of(1);
  }
  // The stages above wait for gradients: this one puts off the weights.
  for (size_t k = 0; k < s; ++k) {
    work.add(backward_input, 0);
    work.add(backward_input, 1);
  }
  for (size_t k = 0; k < p - s; ++k) backward_of(0);
  for (size_t chunk : {1, 0}) {
    while (work.count(backward_weight, chunk) < n) work.add(backward_weight, chunk);
  }
  return work.take();
}

}  // namespace

std::string_view name_of(Order order) {
  constexpr std::array<std::string_view, 7> kNames = {"naive", "gpipe", "1f1b", "interleaved",
                                                      "zb-h1", "zb-h2", "zb-v"};
  return kNames.at(static_cast<size_t>(order));
}

ChunkPlacement placement_of(Order order, size_t num_stages, size_t num_chunks) {
  const bool is_v = order == Order::zb_v;
  const size_t chunks = is_v ? 2 : order == Order::interleaved ? num_chunks : 1;
  return {.num_stages = num_stages, .num_chunks = chunks, .is_v = is_v};
}

size_t max_in_flight(Order order, const ChunkPlacement& at, size_t s, size_t m) {
  const size_t p = at.num_stages;
  switch (order) {
    case Order::naive:
      return 1;
    case Order::gpipe:
      return m;
    case Order::one_f_one_b:
    case Order::interleaved:
      return std::min(m * at.num_chunks, num_warm_up(at, s) + 1);
    case Order::zb_h1:
      return std::min(m, p);
    case Order::zb_h2:
      return std::min(m, 2 * p - 1);
    case Order::zb_v:
      return std::min(2 * m, 2 * p);
  }
  fail("no such order");
}

size_t unit_time(Order order, const ChunkPlacement& at, size_t m) {
  const size_t p = at.num_stages;
  switch (order) {
    case Order::naive:
      return 3 * m * p;
    case Order::gpipe:
    case Order::one_f_one_b:
    case Order::interleaved:
      return 3 * m * at.num_chunks + 3 * (p - 1);
    case Order::zb_h1:
      return 3 * m + p - 1 + (p > m ? p - m : 0);
    case Order::zb_h2:
      return 3 * m + p - 1 + (p - 1 > m / 2 ? p - 1 - m / 2 : 0);
    case Order::zb_v:
      return std::max(6 * m + p - 1, 4 * m + 4 * p - 2);
  }
  fail("no such order");
}

Schedule make_work(Order order, const ChunkPlacement& at, size_t m) {
  const size_t p = at.num_stages;
  check(p > 0 && m > 0, "make_work: there must be a stage and a micro-batch");
  check(order != Order::interleaved || m % p == 0, "make_work: p must divide m");
  Schedule work;
  for (size_t s = 0; s < p; ++s) {
    work.push_back(order == Order::naive   ? simple_work(ScheduleKind::naive, p, s, m)
                   : order == Order::gpipe ? simple_work(ScheduleKind::gpipe, p, s, m)
                   : order == Order::zb_h1 ? zb_h1_work(p, s, m)
                   : order == Order::zb_h2 ? zb_h2_work(p, s, m)
                   : order == Order::zb_v  ? zb_v_work(p, s, m)
                                           : interleaved_work(at, s, m));
  }
  return work;
}

}  // namespace ladder
