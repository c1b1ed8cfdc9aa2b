// Where Muon's matrices become whole: each has a home among the ranks that have parts of it.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "common/model/layout.h"
#include "common/model/optimizer.h"

namespace ladder {

// What a rank has of a weight: elements [first, first + count) of the slice that it holds.
struct WeightPart {
  const Parameter* slice;
  size_t first = 0, count = 0;
};

// A weight that Muon updates.
struct HomedWeight {
  size_t unit, index;             // parameter `index` of the unit
  size_t home = 0;                // a rank of the group
  std::vector<WeightPart> parts;  // by rank of the group
};

// The floating-point operations that make all matrices of a weight orthogonal.
double muon_flops(const OptimizerConfig& config, const Parameter& parameter);

// MuonHomes says what each rank of a group has of every weight, and which becomes its home. All
// ranks find the same. In the group, ranks of a tensor-parallel group are consecutive:
// rank = shard * tensor_size + slice.
class MuonHomes {
 public:
  struct Group {
    size_t size = 1;          // ranks
    bool has_shards = false;  // whether a unit's shards are divided among them
    bool of_divided = false;  // whether it is for units whose experts are divided, or all others
    HomeChoice choice = HomeChoice::longest_first;
  };

  // `layout` is Layout::trained(), which must outlive this object, and `rank` this rank in it.
  MuonHomes(const OptimizerConfig& config, const Layout& layout, size_t rank, const Group& group);
  MuonHomes(const MuonHomes&) = delete;

  size_t size() const { return group_.size; }
  const std::vector<HomedWeight>& weights() const { return weights_; }
  // The weights of one home, the longest first.
  using Weights = std::vector<const HomedWeight*>;
  const Weights& at(size_t home) const { return at_[home]; }
  // An update has rounds, in which homes work at the same time. In each a home takes its weights,
  // the longest first, while together they have no more elements than the largest weight of all,
  // and no rank has to send more than four times that. A home may get none.
  size_t num_rounds() const { return num_rounds_; }
  const Weights& in_round(size_t home, size_t round) const;
  // Return what a home has to make orthogonal: matrices, and floating-point operations.
  size_t matrices_at(size_t home) const;
  double flops_at(size_t home) const;

 private:
  void add_weight(size_t unit, size_t index, size_t rank);
  // Gives each weight its home (HomeChoice), and at_ the weights of each home, the longest first.
  // Of weights with equal work, the model's first comes first; of ranks, the first.
  void choose();
  void divide_into_rounds();

  OptimizerConfig config_;
  const Layout& layout_;
  Group group_;
  std::deque<Layout> slices_;  // the layouts of the ranks of a tensor-parallel group
  std::vector<HomedWeight> weights_;
  std::vector<Weights> at_;                   // by home
  std::vector<std::vector<Weights>> rounds_;  // by home, and round
  size_t num_rounds_ = 0;
};

}  // namespace ladder
