// Who goes where: the choices of a micro-batch become assignments in the buffers that ranks
// exchange. This is done on the host, which has to know the counts anyway.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/comm/pair_counts.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// The sizes of a micro-batch: B sequences of T tokens, each of which chooses k of E experts.
struct RoutingSizes {
  size_t batch, tokens, chosen, num_experts;
  // By sequence, how many of its tokens are not padding; empty: all T.
  std::span<const size_t> lengths = {};

  size_t rows() const { return batch * tokens; }
  size_t length(size_t sequence) const { return lengths.empty() ? tokens : lengths[sequence]; }
};

// Returns how many tokens of a sequence an expert takes: factor * T k / E, rounded up, and T at
// most, since a token chooses an expert once. A factor of 0 means T, so that nobody is dropped.
// [Fedus21 Switch, equation 3]
size_t expert_capacity(size_t tokens, size_t chosen, size_t num_experts, double factor);

// Sets choice i to expert i modulo E: what tokens choose on the virtual device, which computes no
// probabilities.
void choose_in_turn(std::span<int32_t> experts, size_t num_experts);

struct Routing {
  std::vector<size_t> kept, dropped;  // by expert: its choices that have an assignment, and those
                                      // that have none
  size_t num_assignments() const;
};

// Gives assignments to choices. In each sequence an expert takes the first tokens that choose it,
// in order of position, as many as expert_capacity() says for the sequence's length; so neither
// ranks, nor micro-batches, nor padding decide who is dropped. Padding gets no assignment, and is
// not counted as dropped. The assignments are numbered by expert, and by row within an expert.
//   experts (R, k) in: what router_forward chose
//   assignments (R, k) out: the assignment of each choice, or -1; rows (R k) out: the row of each assignment
//   fractions (B, E) out, fp32 or fp64, on the host: of the choices of a sequence's tokens those that fell
//   on an expert, dropped or not
Routing assign_tokens(std::span<int32_t> assignments, std::span<int32_t> rows, TensorView fractions,
                      std::span<const int32_t> experts, const RoutingSizes& sizes,
                      double capacity_factor);

// The assignments of all ranks that come to this rank's experts. They arrive by sender, and from
// each sender by expert; the experts want them by expert, and within an expert by sender.
struct Arrival {
  std::vector<size_t> of_expert;  // how many of them each of this rank's experts gets
  PairCounts rows;                // how many go from each rank to each
};

// Finds the order of the assignments that arrive at `rank`. counts (N, E) has how many assignments
// each of N ranks has for each expert. Rank r has the r-th N-th of the experts.
//   grouped out: for each assignment in the order of the experts, its place in the order of arrival
//   arrived out: the reverse
Arrival order_arrivals(std::span<int32_t> grouped, std::span<int32_t> arrived,
                       std::span<const int32_t> counts, size_t num_ranks, size_t rank);

}  // namespace ladder
