// Divides plans into rounds, and carries out plans in one process.
#include <algorithm>

#include "kernels/runtime/check.h"
#include "lessons/00_collectives/plan.h"

namespace ladder {
namespace {

// Returns whether `own`, a transfer of `rank`, and `other`, a transfer of `peer`, are the two ends
// of one message.
bool match(const std::optional<Exchange::Transfer>& own, size_t rank,
           const std::optional<Exchange::Transfer>& other, size_t peer) {
  return own && other && own->peer == peer && other->peer == rank &&
         own->range.size() == other->range.size();
}

// Returns the ranks that can take their next exchanges. An exchange waits if the rank at the other
// end of its message has not come to that message, and then every rank that needs this exchange
// waits too.
Round ready_ranks(const Plan& plan, const std::vector<size_t>& next) {
  std::vector<bool> ready(plan.size());
  for (size_t r = 0; r < plan.size(); ++r) ready[r] = next[r] < plan[r].size();
  const auto can_go = [&](size_t r) {
    const Exchange& exchange = plan[r][next[r]];
    const auto has_peer = [&](const auto& own, auto side) {
      if (!own) return true;
      const size_t peer = own->peer;
      return ready[peer] && match(own, r, plan[peer][next[peer]].*side, peer);
    };
    return has_peer(exchange.send, &Exchange::receive) &&
           has_peer(exchange.receive, &Exchange::send);
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t r = 0; r < plan.size(); ++r) {
      if (!ready[r] || can_go(r)) continue;
      ready[r] = false;
      changed = true;
    }
  }
  Round round;
  for (size_t r = 0; r < plan.size(); ++r) {
    if (ready[r]) round.push_back(r);
  }
  return round;
}

}  // namespace

std::vector<Round> rounds_of(const Plan& plan) {
  std::vector<Round> rounds;
  std::vector<size_t> next(plan.size());
  size_t left = 0;
  for (const std::vector<Exchange>& exchanges : plan) left += exchanges.size();
  while (left > 0) {
    rounds.push_back(ready_ranks(plan, next));
    check(!rounds.back().empty(), "rounds_of: the ranks wait for each other for ever");
    for (size_t r : rounds.back()) ++next[r];
    left -= rounds.back().size();
  }
  return rounds;
}

void run_plan(const Plan& plan, std::vector<std::vector<double>>& vectors,
              const std::function<void(size_t)>& after_round) {
  std::vector<size_t> next(plan.size());
  size_t num_passed = 0;
  for (const Round& round : rounds_of(plan)) {
    const std::vector<std::vector<double>> before = vectors;
    for (size_t r : round) {
      const Exchange& exchange = plan[r][next[r]];
      if (!exchange.receive) continue;
      const auto& [peer, range] = *exchange.receive;
      const size_t first = plan[peer][next[peer]].send->range.begin;
      for (size_t i = 0; i < range.size(); ++i) {
        double& own = vectors[r].at(range.begin + i);
        own = before[peer].at(first + i) + (exchange.adds ? own : 0);
      }
    }
    for (size_t r : round) ++next[r];
    if (after_round) after_round(num_passed++);
  }
}

}  // namespace ladder
