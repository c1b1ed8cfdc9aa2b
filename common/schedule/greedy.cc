#include "common/schedule/greedy.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace ladder {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Choice {
  Action action;
  double begin = kNever;
};

class Greedy {
 public:
  Greedy(const ScheduleProblem& problem, const GreedyRule& rule)
      : problem_(problem),
        rule_(rule),
        at_(problem.placement),
        work_(at_.num_stages),
        cost_of_(costs_of(at_, problem.times, problem.message)),
        clock_(at_.num_stages),
        held_(at_.num_stages),
        most_whole_(at_.num_stages) {
    const std::vector<double> never(problem.num_micro_batches, kNever);
    input_at_.assign(at_.num_virtual_stages(), never);
    gradient_at_.assign(at_.num_virtual_stages(), never);
    next_.assign(at_.num_virtual_stages(), {});
    input_at_[0].assign(problem.num_micro_batches, 0);
    inputs_.resize(at_.num_stages * at_.num_stages);
    gradients_.resize(at_.num_stages * at_.num_stages);
  }

  // The action that begins first is done first: so when a stage chooses, it knows of everything
  // that could begin earlier.
  Schedule run() {
    const size_t per_micro_batch = at_.num_virtual_stages() * (rule_.splits ? 3 : 2);
    for (size_t done = 0; done < problem_.num_micro_batches * per_micro_batch; ++done) {
      Choice first;
      size_t stage = 0;
      for (size_t s = 0; s < at_.num_stages; ++s) {
        const Choice choice = choose(s);
        if (choice.begin >= first.begin) continue;
        first = choice;
        stage = s;
      }
      if (first.begin == kNever) return {};
      perform(stage, first);
    }
    return std::move(work_);
  }

 private:
  struct Next {
    size_t forward = 0, input = 0, weight = 0;  // the micro-batches that are next
  };

  size_t limit_of(size_t s) const {
    const size_t memory = problem_.max_buffers[s];
    if (rule_.warm_up == 0) return memory;
    const size_t wanted = (rule_.warm_up * (at_.num_stages - s) + rule_.extra) * at_.num_chunks;
    return std::min(memory, std::max(wanted, at_.num_chunks));
  }

  // A buffer stays free for each later chunk of the stage: a micro-batch that has begun can end.
  bool has_buffer(size_t s, size_t chunk) const {
    Held held = held_[s];
    if (most_whole_[s] > 0 && held.whole >= most_whole_[s]) return false;
    held.whole += at_.num_chunks - chunk;
    return held.buffers(problem_.kept_for_weights) <= static_cast<double>(limit_of(s));
  }

  // Messages from one stage to another arrive in the order of sending. `boxes` are those for inputs
  // or those for gradients.
  using Boxes = std::vector<std::deque<Action>>;
  std::deque<Action>& box(Boxes& boxes, size_t from, size_t to) const {
    return boxes[from * at_.num_stages + to];
  }
  // Returns whether the message from virtual stage `from`, on which work at stage s depends, is the
  // next one to be received.
  bool comes_next(Boxes& boxes, size_t from, size_t s, size_t micro_batch, size_t chunk) const {
    const size_t sender = at_.chunk_of(from).stage;
    if (sender == s) return true;
    const std::deque<Action>& waiting = box(boxes, sender, s);
    return !waiting.empty() && waiting.front().micro_batch == micro_batch &&
           waiting.front().chunk == chunk;
  }

  void consider(Choice& best, size_t s, double ready, ActionKind kind, size_t micro_batch,
                size_t chunk) const {
    const double begin = std::max(clock_[s], ready);
    if (begin >= best.begin) return;
    best = {{.kind = kind, .micro_batch = micro_batch, .chunk = chunk}, begin};
  }

  Choice choose(size_t s) {
    const size_t m = problem_.num_micro_batches;
    Choice forward, backward, weight;
    for (size_t chunk = at_.num_chunks; chunk-- > 0;) {  // later chunks first
      const size_t v = at_.virtual_stage_at(s, chunk);
      const Next& next = next_[v];
      if (next.forward < m && has_buffer(s, chunk) &&
          (v == 0 || comes_next(inputs_, v - 1, s, next.forward, chunk))) {
        consider(forward, s, input_at_[v][next.forward], ActionKind::forward, next.forward, chunk);
      }
      if (next.input < m && (v + 1 == at_.num_virtual_stages() ||
                             comes_next(gradients_, v + 1, s, next.input, chunk))) {
        consider(backward, s, gradient_at_[v][next.input],
                 rule_.splits ? ActionKind::backward_input : ActionKind::backward, next.input,
                 chunk);
      }
      if (rule_.splits && next.weight < next.input) {
        consider(weight, s, 0, ActionKind::backward_weight, next.weight, chunk);
      }
    }
    const double wait = most_whole_[s] > 0 ? 0 : rule_.first_wait * cost_of_(s, forward.action);
    const bool takes_forward = rule_.prefers_forward && wait == 0
                                   ? forward.begin <= backward.begin
                                   : forward.begin + wait < backward.begin;
    const Choice& best = takes_forward ? forward : backward;
    const double half = cost_of_(s, weight.action);
    const bool is_last = forward.begin == kNever && backward.action.micro_batch + 1 == m;
    const double patience = rule_.spares_last && is_last ? 1 : rule_.patience;
    return best.begin > weight.begin + patience * half ? weight : best;
  }

  // Sends what is made at `end` on stage s to a virtual stage. Returns when it can be used there.
  double send(Boxes& boxes, size_t s, size_t v, size_t micro_batch, double end) {
    const StageChunk there = at_.chunk_of(v);
    if (there.stage == s) return end;
    box(boxes, s, there.stage).push_back({.micro_batch = micro_batch, .chunk = there.chunk});
    return end + problem_.message;
  }
  void receive(Boxes& boxes, size_t from, size_t s) {
    const size_t sender = at_.chunk_of(from).stage;
    if (sender != s) box(boxes, sender, s).pop_front();
  }

  void perform(size_t s, const Choice& choice) {
    const auto& [kind, k, buffer, peer, chunk] = choice.action;
    const size_t v = at_.virtual_stage_at(s, chunk);
    const double end = clock_[s] = choice.begin + cost_of_(s, choice.action);
    work_[s].push_back(choice.action);
    if (makes_gradient(kind) && rule_.first_wait > 0 && most_whole_[s] == 0) {
      most_whole_[s] = held_[s].whole;
    }
    held_[s].add(kind);
    if (kind == ActionKind::forward) {
      ++next_[v].forward;
      if (v > 0) receive(inputs_, v - 1, s);
      if (v + 1 == at_.num_virtual_stages()) {
        gradient_at_[v][k] = end;
      } else {
        input_at_[v + 1][k] = send(inputs_, s, v + 1, k, end);
      }
    } else if (makes_gradient(kind)) {
      ++next_[v].input;
      if (v + 1 < at_.num_virtual_stages()) receive(gradients_, v + 1, s);
      if (v > 0) gradient_at_[v - 1][k] = send(gradients_, s, v - 1, k, end);
    }
    if (kind == ActionKind::backward || kind == ActionKind::backward_weight) {
      ++next_[v].weight;
    }
  }

  const ScheduleProblem& problem_;
  const GreedyRule& rule_;
  const ChunkPlacement& at_;
  Schedule work_;
  Costs cost_of_;
  std::vector<double> clock_;                                // by stage
  std::vector<Held> held_;                                   // by stage
  std::vector<size_t> most_whole_;                           // by stage; 0: any number
  std::vector<std::vector<double>> input_at_, gradient_at_;  // by virtual stage and micro-batch
  std::vector<Next> next_;                                   // by virtual stage
  Boxes inputs_, gradients_;                                 // by sender and receiver
};

}  // namespace

void Held::add(ActionKind work) {
  if (work == ActionKind::forward) ++whole;
  if (makes_gradient(work)) --whole;
  if (work == ActionKind::backward_input) ++halved;
  if (work == ActionKind::backward_weight) --halved;
}

Schedule greedy_work(const ScheduleProblem& problem, const GreedyRule& rule) {
  return Greedy(problem, rule).run();
}

}  // namespace ladder
