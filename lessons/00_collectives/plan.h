// Collectives as plans. A plan says who sends which elements to whom, exchange by exchange.
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
struct Elements {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
  friend bool operator==(const Elements&, const Elements&) = default;
};

// Part `index` of n elements cut into `count` parts in order. Where count does not divide n, some
// parts are one element longer than others.
inline Elements part_of(size_t n, size_t count, size_t index) {
  return {n * index / count, n * (index + 1) / count};
}

// One exchange of a rank: it sends, or receives, or does both at the same time.
struct Exchange {
  struct Transfer {
    size_t peer = 0;
    Elements range;  // the range of this rank's vector; the peer's range has the same length
    friend bool operator==(const Transfer&, const Transfer&) = default;
  };
  std::optional<Transfer> send, receive;
  bool adds = false;  // true: adds what it receives to its vector; false: stores it there
  friend bool operator==(const Exchange&, const Exchange&) = default;
};

// The exchanges of every rank, in order.
using Plan = std::vector<std::vector<Exchange>>;

// Returns whether the algorithm does this collective. naive and ring do all six collectives. tree
// does broadcast, reduce and all_reduce; halving does reduce_scatter, all_gather and all_reduce.
bool supports(Algorithm algorithm, Collective collective);

// Throws UserError unless the algorithm does this collective with so many ranks. REQUIRES: the
// collective is one of the six.
void check_supported(Algorithm algorithm, Collective collective, size_t num_ranks);

// Returns the plan that carries out `collective` in place, on a vector of `num_elements` on each
// rank. Part r is part_of(num_elements, num_ranks, r):
// - broadcast: all ranks get rank 0's vector.
// - reduce: rank 0 gets the sum of all vectors.
// - reduce_scatter: rank r gets the sum of all ranks' parts r, in part r.
// - all_gather: all ranks get part r of every rank r.
// - all_reduce: all ranks get the sum of all vectors.
// - all_to_all: part q of rank r and part r of rank q change places.
// All other elements are undefined afterwards. Ranges without elements are left out.
// REQUIRES: check_supported() passes; the ranks divide the elements of an all_to_all.
Plan make_plan(Algorithm algorithm, Collective collective, size_t num_ranks, size_t num_elements);

// A round: the ranks that act at the same time. Each of them takes its next exchange.
using Round = std::vector<size_t>;

// Divides the plan's exchanges into rounds. A message moves in the first round in which both its
// sender and its receiver have come to it. An exchange is over when its messages have moved. Throws
// an Error if ranks wait for each other for ever, or if two ranks disagree about a message.
std::vector<Round> rounds_of(const Plan& plan);

// Carries out the plan in this process. vectors[r] is the vector of rank r. After each round it
// calls `after_round`, if there is one, with the round's number, counted from 0.
void run_plan(const Plan& plan, std::vector<std::vector<double>>& vectors,
              const std::function<void(size_t)>& after_round = {});

}  // namespace ladder
