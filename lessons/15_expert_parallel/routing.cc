#include "lessons/15_expert_parallel/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ladder {

size_t expert_capacity(size_t tokens, size_t chosen, size_t num_experts, double factor) {
  const double share = static_cast<double>(tokens * chosen) / static_cast<double>(num_experts);
  if (factor == 0 || factor * share >= static_cast<double>(tokens)) return tokens;
  return static_cast<size_t>(std::ceil(factor * share));
}

void choose_in_turn(std::span<int32_t> experts, size_t num_experts) {
  for (size_t i = 0; i < experts.size(); ++i) {
    experts[i] = static_cast<int32_t>(i % num_experts);
  }
}

size_t Routing::num_assignments() const {
  return std::accumulate(kept.begin(), kept.end(), size_t{0});
}

Routing assign_tokens(std::span<int32_t> assignments, std::span<int32_t> rows, TensorView fractions,
                      std::span<const int32_t> experts, const RoutingSizes& sizes,
                      double capacity_factor) {
  const size_t e = sizes.num_experts;
  Routing routing = {std::vector<size_t>(e), std::vector<size_t>(e)};
  std::ranges::fill(assignments, -1);
  for (size_t b = 0; b < sizes.batch; ++b) {
    const size_t first = b * sizes.tokens * sizes.chosen, choices = sizes.length(b) * sizes.chosen;
    const size_t capacity = expert_capacity(sizes.length(b), sizes.chosen, e, capacity_factor);
    std::vector<size_t> taken(e);  // the choices that fell on each expert
    for (size_t i = first; i < first + choices; ++i) {
      const auto expert = static_cast<size_t>(experts[i]);
      const bool fits = taken[expert]++ < capacity;
      if (fits) assignments[i] = 0;
      ++(fits ? routing.kept : routing.dropped)[expert];
    }
    dispatch_accumulation(fractions.dtype(), [&](auto zero) {
      using A = decltype(zero);
      A* const f = fractions.as<A>() + b * e;
      for (size_t x = 0; x < e; ++x) f[x] = static_cast<A>(taken[x]) / static_cast<A>(choices);
    });
  }
  std::vector<size_t> next(e);  // the assignment that each expert's next choice gets
  std::exclusive_scan(routing.kept.begin(), routing.kept.end(), next.begin(), size_t{0});
  for (size_t i = 0; i < assignments.size(); ++i) {
    if (assignments[i] < 0) continue;
    const size_t assignment = next[static_cast<size_t>(experts[i])]++;
    assignments[i] = static_cast<int32_t>(assignment);
    rows[assignment] = static_cast<int32_t>(i / sizes.chosen);
  }
  return routing;
}

Arrival order_arrivals(std::span<int32_t> grouped, std::span<int32_t> arrived,
                       std::span<const int32_t> counts, size_t num_ranks, size_t rank) {
  const size_t e = counts.size() / num_ranks, held = e / num_ranks;
  const auto count = [&](size_t from, size_t expert) {
    return static_cast<size_t>(counts[from * e + expert]);
  };
  std::vector<size_t> pairs(num_ranks * num_ranks);
  for (size_t from = 0; from < num_ranks; ++from) {
    for (size_t x = 0; x < e; ++x) pairs[from * num_ranks + x / held] += count(from, x);
  }
  Arrival arrival = {std::vector<size_t>(held), PairCounts(num_ranks, std::move(pairs))};
  size_t assignment = 0;
  for (size_t x = rank * held; x < (rank + 1) * held; ++x) {
    for (size_t from = 0; from < num_ranks; ++from) {
      size_t position = arrival.rows.begin_received(from, rank);
      for (size_t before = rank * held; before < x; ++before) position += count(from, before);
      for (size_t i = 0; i < count(from, x); ++i, ++position, ++assignment) {
        grouped[assignment] = static_cast<int32_t>(position);
        arrived[position] = static_cast<int32_t>(assignment);
      }
      arrival.of_expert[x - rank * held] += count(from, x);
    }
  }
  return arrival;
}

}  // namespace ladder
