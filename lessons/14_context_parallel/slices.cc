#include "lessons/14_context_parallel/slices.h"

#include <algorithm>
#include <numeric>

#include "common/io/text.h"

namespace ladder {

SlicePlan::SlicePlan(Slicing slicing, size_t num_tokens, size_t num_ranks)
    : num_tokens_(num_tokens), front_(num_ranks), back_(num_ranks) {
  if (num_tokens < num_ranks) {
    throw UserError(concat("--context-parallel-size ", num_ranks, ": a sequence of ",
                           counted(num_tokens, "token"), " leaves ranks without one; ", num_tokens,
                           " would do"));
  }
  size_t begin = 0, end = num_tokens;  // what is left for the ranks to come
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const size_t count = num_tokens / num_ranks + (rank < num_tokens % num_ranks ? 1 : 0);
    const size_t in_front = slicing == Slicing::zigzag ? (count + 1) / 2 : count;
    front_[rank] = {begin, in_front};
    back_[rank] = {end - (count - in_front), count - in_front};
    begin += in_front;
    end -= count - in_front;
  }
}

std::vector<int32_t> SlicePlan::positions(size_t rank) const {
  std::vector<int32_t> positions(num_tokens(rank));
  const auto middle = positions.begin() + static_cast<std::ptrdiff_t>(front_[rank].count);
  std::iota(positions.begin(), middle, static_cast<int32_t>(front_[rank].first));
  std::iota(middle, positions.end(), static_cast<int32_t>(back_[rank].first));
  return positions;
}

std::optional<ScoreTile> SlicePlan::tile(size_t rank, size_t owner) const {
  const size_t queries = num_tokens(rank);
  // A rank's own tokens are in the order of the sequence, so the mask among them is causal.
  if (owner == rank) return ScoreTile{0, queries, queries, true};
  // An earlier rank's front slice comes before both slices of this rank, its back slice after both.
  if (owner < rank) return ScoreTile{0, queries, front_[owner].count};
  // Both slices of a later rank lie between the two slices of this rank.
  if (back_[rank].count == 0) return std::nullopt;
  return ScoreTile{front_[rank].count, back_[rank].count, num_tokens(owner)};
}

size_t SlicePlan::num_pairs(size_t rank) const {
  size_t pairs = 0;
  for (size_t owner = 0; owner < num_ranks(); ++owner) {
    const std::optional<ScoreTile> of_owner = tile(rank, owner);
    if (of_owner) pairs += of_owner->num_pairs();
  }
  return pairs;
}

size_t SlicePlan::pairs_on_critical_path() const {
  const size_t n = num_ranks();
  size_t pairs = 0;
  for (size_t round = 0; round < n; ++round) {
    size_t most = 0;
    for (size_t rank = 0; rank < n; ++rank) {
      const std::optional<ScoreTile> of_round = tile(rank, (rank + n - round) % n);
      if (of_round) most = std::max(most, of_round->num_pairs());
    }
    pairs += most;
  }
  return pairs;
}

std::string describe_slices(Slicing slicing, size_t num_tokens, size_t num_ranks) {
  const SlicePlan plan(slicing, num_tokens, num_ranks);
  std::string text = format("  %4s  %-32s %9s %16s\n", "rank", "positions", "tokens", "pairs");
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const std::vector<int32_t> positions = plan.positions(rank);
    std::string ranges;
    for (size_t i = 0, begin = 0; i < positions.size(); ++i) {
      if (i + 1 < positions.size() && positions[i + 1] == positions[i] + 1) continue;
      ranges += concat(ranges.empty() ? "" : ", ", positions[begin], " to ", positions[i]);
      begin = i + 1;
    }
    text += format("  %4zu  %-32s %9zu %16s\n", rank, ranges.c_str(), positions.size(),
                   with_commas(plan.num_pairs(rank)).c_str());
  }
  return text + concat("  pairs of a query and a key on the critical path: ",
                       with_commas(plan.pairs_on_critical_path()), "\n");
}

}  // namespace ladder
