// What collectives begin with and end with, written down once more for the tests.
#pragma once

#include <optional>
#include <vector>

#include "lessons/00_collectives/plan.h"

namespace ladder::testing {

inline constexpr Collective kSix[] = {Collective::broadcast,  Collective::reduce,
                                      Collective::all_reduce, Collective::reduce_scatter,
                                      Collective::all_gather, Collective::all_to_all};

inline bool is_power_of_two(size_t n) { return (n & (n - 1)) == 0; }

// Calls body(algorithm, collective) for all that can be done with so many ranks.
template <class Body>
void for_all_plans(size_t num_ranks, Body body) {
  for (Algorithm algorithm : kAlgorithms) {
    if (algorithm == Algorithm::halving && !is_power_of_two(num_ranks)) continue;
    for (Collective collective : kSix) {
      if (supports(algorithm, collective)) body(algorithm, collective);
    }
  }
}

// Of any rank's element. Different for all of them, whole, and so small that sums are exact.
inline double input(size_t rank, size_t i) { return static_cast<double>(1000 * rank + i + 1); }

// Which part element i of n belongs to.
inline size_t part_with(size_t n, size_t num_ranks, size_t i) {
  size_t part = 0;
  while (i >= n * (part + 1) / num_ranks) ++part;
  return part;
}

// Element i of the rank before the call: 1e9 where the collective must not look.
inline double before(Collective collective, size_t num_ranks, size_t n, size_t rank, size_t i) {
  const bool unused = (collective == Collective::broadcast && rank != 0) ||
                      (collective == Collective::all_gather && part_with(n, num_ranks, i) != rank);
  return unused ? 1e9 : input(rank, i);
}

// Element i of the rank after the call; nothing where it is undefined.
inline std::optional<double> after(Collective collective, size_t num_ranks, size_t n, size_t rank,
                                   size_t i) {
  double sum = 0;
  for (size_t r = 0; r < num_ranks; ++r) sum += input(r, i);
  const size_t part = part_with(n, num_ranks, i);
  switch (collective) {
    case Collective::broadcast:
      return input(0, i);
    case Collective::reduce:
      return rank == 0 ? std::optional(sum) : std::nullopt;
    case Collective::all_reduce:
      return sum;
    case Collective::reduce_scatter:
      return rank == part ? std::optional(sum) : std::nullopt;
    case Collective::all_gather:
      return input(part, i);
    default: {  // all_to_all: equal parts of n / num_ranks
      const size_t length = n / num_ranks;
      return input(part, rank * length + i % length);
    }
  }
}

}  // namespace ladder::testing
