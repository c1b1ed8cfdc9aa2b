// Collectives as plans: who sends which elements to whom, step by step.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "common/grid/traffic.h"

namespace ladder {

// How a collective is composed of messages.
enum class Algorithm { naive, ring, tree, halving };
inline constexpr Algorithm kAlgorithms[] = {Algorithm::naive, Algorithm::ring, Algorithm::tree,
                                            Algorithm::halving};
std::string_view name_of(Algorithm algorithm);

// Elements [begin, end) of a rank's vector.
struct Range {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Part `index` of n elements cut into `count` parts in order. Where count does not divide n, some
// parts are one element longer than others.
inline Range part_of(size_t n, size_t count, size_t index) {
  return {n * index / count, n * (index + 1) / count};
}

// What one rank does at one time: it sends, or receives, or both at once.
struct Step {
  struct Transfer {
    size_t peer = 0;
    Range range;  // of this rank's vector; the peer's may be another one of the same length
  };
  std::optional<Transfer> send, receive;
  bool adds = false;  // what is received is added to the elements that are there, else stored
};

// The steps of every rank, in order.
using Plan = std::vector<std::vector<Step>>;

// naive and ring do all six collectives. tree does broadcast, reduce and all_reduce; halving does
// reduce_scatter, all_gather and all_reduce.
bool supports(Algorithm algorithm, Collective collective);

// UserError unless the algorithm does this collective with so many ranks. REQUIRES: one of the six.
void check_supported(Algorithm algorithm, Collective collective, size_t num_ranks);

// The plan that carries out `collective` in place, on a vector of `num_elements` on each rank. With
// part r for part_of(num_elements, num_ranks, r):
// - broadcast: all ranks get rank 0's vector.
// - reduce: rank 0 gets the sum of all vectors.
// - reduce_scatter: rank r gets the sum of all ranks' parts r, in part r.
// - all_gather: all ranks get part r of every rank r.
// - all_reduce: all ranks get the sum of all vectors.
// - all_to_all: part q of rank r and part r of rank q change places.
// What is not named here is undefined afterwards. Ranges without elements are left out.
// REQUIRES: check_supported() passes; the ranks divide the elements of an all_to_all.
Plan make_plan(Algorithm algorithm, Collective collective, size_t num_ranks, size_t num_elements);

// The ranks that act at the same time; each takes its next step.
using Round = std::vector<size_t>;

// The plan's steps in rounds. A message moves in the round in which its sender and its receiver
// have both come to it, and a step is over when its message or messages have moved.
// Throws Error where ranks wait for each other for ever, or disagree about a message.
std::vector<Round> rounds_of(const Plan& plan);

// Carries out the plan in this process, where vectors[r] is rank r's. `after_round`, if any, is
// told how many rounds have passed.
void run_plan(const Plan& plan, std::vector<std::vector<double>>& vectors,
              const std::function<void(size_t)>& after_round = {});

}  // namespace ladder
