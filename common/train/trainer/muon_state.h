// What ModelState has in runs with Muon: the update of weights of which ranks have parts.
#pragma once

#include <deque>
#include <vector>

#include "common/comm/communicator.h"
#include "common/model/muon.h"
#include "common/model/muon_homes.h"
#include "common/optimizer/rule.h"
#include "common/train/trainer/model_state.h"

namespace ladder {

// MuonState updates the weights of a ModelState that are Muon's. In each round the ranks send the
// parts of some weights to their homes, homes make these weights orthogonal, and send back what
// moves the parts. A rank that has whole weights sends nothing: it is alone in its group.
class MuonState {
 public:
  // Allocates workspace. `layout` is Layout::trained().
  MuonState(const TrainerContext& context, const Layout& layout, size_t rank, bool is_sharded,
            const MuonRanks& ranks);

  MatrixWork work() const;

  // Updates all weights that are Muon's; `tensors` is what this rank has of them. Collective over
  // the ranks that have parts of them.
  using Tensors = std::vector<UpdateTensors>;
  void update(Stream& stream, const Tensors& tensors, const UpdateStep& step);

 private:
  // The ranks that have parts of some of the weights, and what they send.
  struct Group {
    template <class... Args>
    explicit Group(Communicator* group_ranks, const Args&... args)
        : ranks(group_ranks), homes(args...) {}
    Communicator* ranks;  // null: this rank is alone
    MuonHomes homes;
    size_t rank() const { return ranks == nullptr ? 0 : ranks->rank(); }
  };
  static std::deque<Group> groups_of(const OptimizerConfig& config, const Layout& layout,
                                     size_t rank, bool is_sharded, const MuonRanks& ranks);
  void allocate(const TrainerContext& context);
  // Runs one round of an update. own_ gets this rank's parts, home by home, in the order of
  // in_round(). Every rank takes part in both exchanges, even one that is no home in this round.
  void run_round(Stream& stream, const Group& group, size_t round, const Tensors& tensors,
                 const UpdateStep& step);
  // Makes weights orthogonal. `parts` has what each rank has of all of them, rank by rank.
  void run_at_home(Stream& stream, const MuonHomes::Weights& weights, TensorView parts,
                   double learning_rate);
  // Copies between the parts of weights[i] and the whole of it, slice by slice.
  void copy_parts(Stream& stream, const MuonHomes::Weights& weights, size_t i, TensorView parts,
                  TensorView whole, bool to_whole);
  // Returns what this rank updates of a weight.
  const UpdateTensors& own_part(const Tensors& tensors, const HomedWeight& weight) const;

  const Layout& layout_;
  double momentum_, weight_decay_;
  std::deque<Group> groups_;
  Muon muon_;
  Tensor own_;    // this rank's parts of a round's weights
  Tensor home_;   // all parts of the weights whose home it is; empty if it is alone
  Tensor whole_;  // one of these weights; empty if no parts have to be put together
  Tensor slice_;  // a slice of it; empty, too, if ranks have no slices
};

}  // namespace ladder
