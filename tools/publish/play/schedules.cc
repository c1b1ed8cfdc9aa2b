#include <algorithm>
#include <set>
#include <tuple>

#include "common/schedule/check.h"
#include "common/schedule/draw.h"
#include "common/schedule/search.h"
#include "kernels/runtime/check.h"
#include "lessons/16_pipeline_schedules/schedules.h"
#include "tools/publish/play/exports.h"

namespace ladder {
namespace {

using enum ActionKind;

// The times of a stage, and of a message.
struct Times {
  double forward = 0, input = 0, weight = 0, message = 0;

  explicit Times(std::istream& words) { words >> forward >> input >> weight >> message; }
  // A stage's model chunks share its times.
  std::vector<VirtualStageTimes> of_virtual_stages(const ChunkPlacement& at) const {
    const auto v = static_cast<double>(at.num_chunks);
    return {at.num_virtual_stages(), {forward / v, input / v, weight / v}};
  }
  Costs costs(const ChunkPlacement& at) const {
    return costs_of(at, of_virtual_stages(at), message);
  }
};

// A schedule, and when everything in it happens.
struct TimedSchedule {
  Schedule schedule;
  Timeline timeline;
};

// [time, number of micro-batches held from then on]
Json held_json(const StageSchedule& stage, const std::vector<Span>& spans) {
  std::vector<std::vector<Json>> steps;
  for (const auto& [time, number] : held_over_time(stage, spans)) {
    steps.push_back({json(time), json(number)});
  }
  return json(steps);
}

// An action is [kind, micro-batch, model chunk, peer, begin, end].
Json stage_json(const StageSchedule& stage, const std::vector<Span>& spans) {
  std::vector<std::vector<Json>> actions;
  for (size_t i = 0; i < stage.size(); ++i) {
    const auto& [kind, micro_batch, buffer, peer, chunk] = stage[i];
    actions.push_back({json(name_of(kind)), json(micro_batch), json(chunk), json(peer),
                       json(spans[i].begin), json(spans[i].end)});
  }
  return json(actions);
}

Json timed_json(const TimedSchedule& timed) {
  const auto& [schedule, timeline] = timed;
  const Bubble bubble = bubble_of(schedule, timeline);
  std::vector<Json> stages, held;
  std::vector<size_t> buffers;
  size_t messages = 0;
  for (size_t s = 0; s < schedule.size(); ++s) {
    stages.push_back(stage_json(schedule[s], timeline[s]));
    held.push_back(held_json(schedule[s], timeline[s]));
    buffers.push_back(num_buffers(schedule[s]));
    messages += static_cast<size_t>(std::ranges::count_if(
        schedule[s], [&](const Action& a) { return is_send(a.kind) && a.peer != s; }));
  }
  return json({{"time", json(extent_of(timeline).length())},
               {"bubble", json(bubble.overall)},
               {"idle", json(bubble.idle)},
               {"buffers", json(buffers)},
               {"messages", json(messages)},
               {"held", json(held)},
               {"stages", json(stages)}});
}

// A schedule by its name.
struct Named {
  Order order = Order::naive;
  ChunkPlacement at;
  size_t m = 0;
  TimedSchedule timed;

  explicit Named(std::istream& words) {
    std::string name;
    size_t p = 0, v = 0;
    words >> name >> p >> m >> v;
    order = *std::ranges::find(kOrders, name, [](Order o) { return name_of(o); });
    if (order == Order::interleaved && m % p != 0) {
      throw Error(concat(counted(m, "micro-batch"), " on ", counted(p, "stage"),
                         ": they go around in groups of p, so p must divide m"));
    }
    at = placement_of(order, p, v);
    // As lessons 08 and 16 run them.
    const Links links = order <= Order::one_f_one_b ? Links::few : Links::many;
    timed.schedule = complete(make_work(order, at, m), at, true);
    timed.timeline = simulate(timed.schedule, Times(words).costs(at), links);
  }
};

Json named_json(std::istream& words) {
  const Named named(words);
  const size_t time = unit_time(named.order, named.at, named.m);
  const auto work = static_cast<double>(3 * named.m * named.at.num_chunks);
  return json({{"chunks", json(named.at.num_chunks)},
               {"unit_time", json(time)},
               {"unit_bubble", json(1 - work / static_cast<double>(time))},
               {"run", timed_json(named.timed)}});
}

Json drawing_json(std::istream& words) {
  const Named named(words);
  double duration = 0;
  words >> duration;
  return json(draw_svg(std::string(name_of(named.order)), named.timed.schedule,
                       named.timed.timeline, duration));
}

// What a list by hand must do.
struct Task {
  size_t p = 0, m = 0, buffers = 0;
  bool splits = true;

  explicit Task(std::istream& words) { words >> p >> m >> buffers >> splits; }
  ChunkPlacement at() const { return {.num_stages = p}; }
  std::vector<size_t> max_buffers() const { return std::vector<size_t>(p, buffers); }
  size_t num_actions() const { return p * m * (splits ? 3 : 2); }
};

Schedule read_work(std::istream& words, const Task& task) {
  Schedule work(task.p);
  size_t stage = 0;
  for (char letter = 0; words >> letter;) {
    if (letter == '/') {
      ++stage;
      continue;
    }
    Action action = {.kind = letter == 'F'   ? forward
                             : letter == 'W' ? backward_weight
                             : task.splits   ? backward_input
                                             : backward};
    words >> action.micro_batch;
    check(stage < task.p, "a list for each stage");
    work[stage].push_back(action);
  }
  return work;
}

// The part of a list by hand that can run, though the rest is wrong or missing.
class Runnable {
 public:
  explicit Runnable(const Schedule& work) : p_(work.size()), work_(p_) {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < p_; ++s) {
        for (size_t i = work_[s].size(); i < work[s].size() && can_run(s, work[s][i]); ++i) {
          done_.insert(key(s, work[s][i]));
          work_[s].push_back(work[s][i]);
          moved = true;
        }
      }
    }
  }

  // Returns how many of each stage's actions can run.
  std::vector<size_t> counts() const {
    std::vector<size_t> counts;
    for (const StageSchedule& stage : work_) counts.push_back(stage.size());
    return counts;
  }
  // Returns them with their messages, without those that nobody receives yet.
  Schedule schedule(const ChunkPlacement& at) const {
    Schedule all = complete(work_, at, false);
    for (StageSchedule& stage : all) {
      std::erase_if(stage, [&](const Action& a) {
        const ActionKind kind = moves_gradient(a.kind) ? backward : forward;
        return is_send(a.kind) && !is_done(a.peer, kind, a.micro_batch);
      });
    }
    return all;
  }

 private:
  using Key = std::tuple<size_t, ActionKind, size_t>;  // stage, kind, micro-batch
  static ActionKind general(ActionKind kind) { return makes_gradient(kind) ? backward : kind; }
  static Key key(size_t s, const Action& a) { return {s, general(a.kind), a.micro_batch}; }
  bool is_done(size_t s, ActionKind kind, size_t k) const { return done_.contains({s, kind, k}); }

  bool can_run(size_t s, const Action& a) const {
    const size_t k = a.micro_batch;
    if (done_.contains(key(s, a))) return false;
    if (a.kind == forward) return s == 0 || is_done(s - 1, forward, k);
    if (a.kind == backward_weight) return is_done(s, backward, k);
    return is_done(s, forward, k) && (s + 1 == p_ || is_done(s + 1, backward, k));
  }

  size_t p_;
  Schedule work_;
  std::set<Key> done_;
};

// Returns the faults of a list. Of one that is not finished these are the ones that more actions
// cannot mend.
std::vector<std::string> faults_of(const Task& task, const Schedule& work, bool is_finished) {
  std::vector<std::string> faults =
      check_schedule(complete(work, task.at(), true), task.at(), task.m, task.max_buffers());
  if (is_finished) return faults;
  std::erase_if(faults, [](const std::string& fault) {
    return fault.ends_with("it is missing") || fault.starts_with("deadlock") ||
           fault.find(" are sent and ") != fault.npos;
  });
  return faults;
}

Json list_json(std::istream& words) {
  const Task task(words);
  const Times times(words);
  const Schedule work = read_work(words, task);
  std::set<std::tuple<size_t, ActionKind, size_t>> listed;
  for (size_t s = 0; s < task.p; ++s) {
    for (const Action& action : work[s]) listed.insert({s, action.kind, action.micro_batch});
  }
  const size_t missing = task.num_actions() - listed.size();
  const Runnable runnable(work);
  TimedSchedule timed = {runnable.schedule(task.at()), {}};
  Json run = {"null"};
  if (!listed.empty() && !timed.schedule.front().empty()) {
    try {
      timed.timeline = simulate(timed.schedule, times.costs(task.at()), Links::many);
      run = timed_json(timed);
    } catch (const Error&) {  // messages are received in another order than sent: a fault says so
    }
  }
  return json({{"missing", json(missing)},
               {"faults", json(faults_of(task, work, missing == 0))},
               {"runnable", json(runnable.counts())},
               {"run", run}});
}

// The same search as that of --schedule auto, with one model chunk on each stage.
Json par_json(std::istream& words) {
  constexpr size_t kTrials = 2000;
  const Task task(words);
  const Times times(words);
  const ScheduleProblem problem = {.placement = task.at(),
                                   .num_micro_batches = task.m,
                                   .times = times.of_virtual_stages(task.at()),
                                   .message = times.message,
                                   .max_buffers = task.max_buffers(),
                                   .splits = task.splits};
  std::vector<Schedule> known;
  for (const Order order : {Order::naive, Order::gpipe, Order::one_f_one_b, Order::zb_h1}) {
    if (task.splits || !splits_backward(order)) {
      known.push_back(make_work(order, task.at(), task.m));
    }
  }
  const Schedule work = find_work(problem, known, kTrials);
  std::vector<std::vector<std::string>> list;
  for (const StageSchedule& stage : work) {
    std::vector<std::string>& actions = list.emplace_back();
    for (const auto& [kind, micro_batch, buffer, peer, chunk] : stage) {
      const char* const letter = kind == forward ? "F" : kind == backward_weight ? "W" : "B";
      actions.push_back(concat(letter, micro_batch));
    }
  }
  return json({{"time", json(time_of(problem, work))}, {"list", json(list)}});
}

}  // namespace

Json schedule_request(const std::string& what, std::istream& words) {
  if (what == "schedule") return named_json(words);
  if (what == "drawing") return drawing_json(words);
  return what == "list" ? list_json(words) : par_json(words);
}

}  // namespace ladder
