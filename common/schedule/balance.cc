#include "common/schedule/balance.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct BestCut {
  double value = kInfinity;
  std::vector<size_t> first;  // the first item of each stage
};

// Returns the cut with the smallest value. fold(value of some stages, cost of one more stage) is
// the value of all of them; it must be monotonic in its first argument. For s stages that hold all
// items before `end`, we try every item at which the last stage may begin, together with the best
// cut of the items before it into s - 1 stages.
template <class Fold>
BestCut best_cut(const std::vector<double>& costs, size_t num_stages, Fold fold) {
  const size_t n = costs.size();
  std::vector<double> before(n + 1, kInfinity);  // the best values with one stage less, by `end`
  before[0] = 0;
  std::vector<std::vector<size_t>> begins(num_stages, std::vector<size_t>(n + 1));
  for (size_t s = 0; s < num_stages; ++s) {
    std::vector<double> best(n + 1, kInfinity);
    for (size_t end = 1; end <= n; ++end) {
      double cost = 0;
      for (size_t begin = end; begin-- > 0;) {
        cost += costs[begin];
        const double value = fold(before[begin], cost);
        if (!(value < best[end])) continue;
        best[end] = value;
        begins[s][end] = begin;
      }
    }
    before = best;
  }
  BestCut cut{before[n], std::vector<size_t>(num_stages)};
  for (size_t s = num_stages, end = n; s-- > 0;) cut.first[s] = end = begins[s][end];
  return cut;
}

}  // namespace

std::vector<size_t> cut_line(const std::vector<double>& costs, size_t num_stages) {
  check(num_stages > 0, "cut_line: there must be a stage");
  if (num_stages > costs.size()) {
    throw UserError(concat("--pipeline-parallel-size ", num_stages,
                           ": a stage holds at least one of ", "the model's ", costs.size(),
                           " units (embeddings, blocks, final norm), so there may be at most ",
                           costs.size(), " stages"));
  }
  const double largest = best_cut(costs, num_stages, [](double before, double cost) {
                           return std::max(before, cost);
                         }).value;
  return best_cut(costs, num_stages,
                  [&](double before, double cost) {
                    return cost <= largest ? before + cost * cost : kInfinity;
                  })
      .first;
}

double balance(const std::vector<double>& stage_costs) {
  const double total = std::accumulate(stage_costs.begin(), stage_costs.end(), 0.0);
  const double largest = std::ranges::max(stage_costs);
  return largest > 0 ? total / static_cast<double>(stage_costs.size()) / largest : 1;
}

}  // namespace ladder
