#include "lessons/00_collectives/show.h"

#include <cmath>
#include <limits>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using Vectors = std::vector<std::vector<double>>;

// Writes elements of a vector, as in "[1 2 . .]".
std::string text_of(const std::vector<double>& vector, Elements range) {
  std::string text = "[";
  for (size_t i = range.begin; i < range.end; ++i) {
    if (i > range.begin) text += ' ';
    text += std::isnan(vector[i]) ? "." : concat(vector[i]);
  }
  return text + "]";
}

// Returns the vectors at the beginning: rank 0 has 1, 2, 3, 4, rank 1 has 5, 6, 7, 8, and so on.
// Elements that the collective does not read are missing.
Vectors first_vectors(Collective collective, size_t num_ranks, size_t n) {
  Vectors vectors(num_ranks);
  for (size_t r = 0; r < num_ranks; ++r) {
    const Elements own = part_of(n, num_ranks, r);
    for (size_t i = 0; i < n; ++i) {
      const bool is_missing =
          (collective == Collective::broadcast && r > 0) ||
          (collective == Collective::all_gather && (i < own.begin || i >= own.end));
      vectors[r].push_back(is_missing ? std::numeric_limits<double>::quiet_NaN()
                                      : static_cast<double>(r * n + i + 1));
    }
  }
  return vectors;
}

// Describes the exchange of a rank, as in "sends [1 2] to rank 1, adds [7 8] from rank 3". `next`
// has the index of the exchange that each rank takes.
std::string text_of(const Plan& plan, const std::vector<size_t>& next, size_t rank,
                    const Vectors& before) {
  const Exchange& exchange = plan[rank][next[rank]];
  std::string text;
  if (exchange.send) {
    const auto& [peer, range] = *exchange.send;
    text = concat("sends ", text_of(before[rank], range), " to rank ", peer);
  }
  if (exchange.receive) {
    const size_t peer = exchange.receive->peer;
    text += concat(text.empty() ? "" : ", ", exchange.adds ? "adds " : "stores ",
                   text_of(before[peer], plan[peer][next[peer]].send->range), " from rank ", peer);
  }
  return text;
}

}  // namespace

std::string show_plan(Algorithm algorithm, Collective collective, size_t num_ranks) {
  constexpr size_t kNumbers = 4;
  const size_t n = collective == Collective::all_to_all
                       ? (kNumbers + num_ranks - 1) / num_ranks * num_ranks
                       : kNumbers;
  const Plan plan = make_plan(algorithm, collective, num_ranks, n);
  const std::vector<Round> rounds = rounds_of(plan);
  Vectors vectors = first_vectors(collective, num_ranks, n), before = vectors;
  std::vector<size_t> next(num_ranks);
  std::string text =
      concat(name_of(algorithm), " ", name_of(collective), " on ", counted(num_ranks, "rank"), ": ",
             counted(rounds.size(), "round"), "\n");
  for (size_t r = 0; r < num_ranks; ++r) {
    text += concat("  rank ", r, " has ", text_of(vectors[r], {0, n}), "\n");
  }
  run_plan(plan, vectors, [&](size_t round) {
    text += concat("round ", round, "\n");
    for (size_t r : rounds[round]) {
      text += concat("  rank ", r, " ", text_of(plan, next, r, before), " and has ",
                     text_of(vectors[r], {0, n}), "\n");
    }
    for (size_t r : rounds[round]) ++next[r];
    before = vectors;
  });
  return text;
}

}  // namespace ladder
