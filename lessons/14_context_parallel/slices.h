// Which tokens of a sequence each rank has, and which of its queries see which keys.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention_of_tile.h"

namespace ladder {

// How N ranks share the T tokens of a sequence.
//   contiguous  Rank r has the r-th of N slices. The last rank's queries see all keys, those of
//               rank 0 only its own.
//   zigzag      Rank r has slices r and 2 N - 1 - r of 2 N: an early one and a late one. So all
//               ranks have equally many pairs of a query and a key. [Llama 3, section 3.3.2]
enum class Slicing { contiguous, zigzag };

// SlicePlan says this for all ranks. Each rank has T / N tokens, and the first T % N ranks one
// more. Of its two slices in a zigzag, the first has one token more if their number is odd.
class SlicePlan {
 public:
  struct Slice {
    size_t first, count;
  };
  // Throws UserError unless each rank has at least one token.
  SlicePlan(Slicing slicing, size_t num_tokens, size_t num_ranks);

  size_t num_ranks() const { return front_.size(); }
  // Returns T.
  size_t num_tokens() const { return num_tokens_; }
  // Returns the number of tokens of a rank, and the most that a rank has.
  size_t num_tokens(size_t rank) const { return front_[rank].count + back_[rank].count; }
  size_t most_tokens() const { return num_tokens(0); }
  // Returns the positions of a rank's tokens, in increasing order.
  std::vector<int32_t> positions(size_t rank) const;
  // Returns a rank's slices, in this order. The second one is empty if slices are contiguous.
  std::array<Slice, 2> slices(size_t rank) const { return {front_[rank], back_[rank]}; }
  // Returns what a rank computes with the keys of `owner`: the tile of its queries that see them,
  // as places among its own tokens. Nothing if it has no query that sees one of them.
  std::optional<ScoreTile> tile(size_t rank, size_t owner) const;

  // Returns the number of pairs of a query and a key that it sees: for one rank over all tiles,
  // and on the critical path of the ring. At each round of the ring the ranks wait for the one that
  // has most to compute.
  size_t num_pairs(size_t rank) const;
  size_t pairs_on_critical_path() const;

 private:
  size_t num_tokens_;
  std::vector<Slice> front_, back_;  // by rank; at the back empty if slices are contiguous
};

// Returns the lines of the header: who has which tokens, and how many pairs each rank computes.
std::string describe_slices(Slicing slicing, size_t num_tokens, size_t num_ranks);

}  // namespace ladder
