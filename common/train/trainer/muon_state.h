// What ModelState has in runs with Muon: which second moments there are, and the update of weights.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "common/comm/communicator.h"
#include "common/model/muon.h"
#include "common/model/muon_homes.h"
#include "common/model/slices.h"
#include "common/train/trainer/model_state.h"

namespace ladder {

// SecondMoments says which second moments this rank keeps under Muon: those of the elements that
// AdamW updates. They lie one after the other, without padding. (Momentum is the first moment, in a
// buffer like AdamW's.)
class SecondMoments {
 public:
  // Of a layout Layout::trained(), which must outlive this object. If `is_sharded`, rank `rank` of
  // it updates its shards.
  SecondMoments(const OptimizerConfig& config, const Layout& layout, size_t rank, bool is_sharded);

  size_t num_elements() const { return num_elements_; }
  // Return the slices of a buffer of them: all, or those that this rank owns (owned_range).
  std::vector<Slice> held(TensorView buffer) const;
  std::vector<Slice> owned(TensorView buffer) const;
  // Returns what AdamW updates of a unit; `all` is the part of the unit that this rank updates.
  std::vector<AdamWTensors> adamw_tensors(size_t unit, const AdamWTensors& all,
                                          TensorView buffer) const;

 private:
  // Elements of one parameter.
  struct Range {
    const Parameter* parameter;
    size_t unit;
    size_t first, count;  // elements of what the rank holds of the parameter
    size_t flat;          // the element of the flat buffer at which they begin
    size_t within;        // their first element in the part of the unit that the rank updates
    size_t at;            // the element of the buffer of second moments
  };

  const Layout& layout_;
  size_t rank_;
  std::vector<Range> ranges_;
  size_t num_elements_ = 0;
};

// MuonState updates the weights of a ModelState that are Muon's. In each round the ranks send the
// parts of some weights to their homes, homes make these weights orthogonal, and send back what
// moves the parts. A rank that has whole weights sends nothing: it is alone in its group.
class MuonState {
 public:
  // Allocates workspace. `layout` is Layout::trained().
  MuonState(const TrainerContext& context, const Layout& layout, size_t rank, bool is_sharded,
            const MuonRanks& ranks);

  const SecondMoments& seconds() const { return seconds_; }
  size_t num_at_home() const;  // matrices
  int64_t num_calls() const { return muon_.num_calls(); }

  // Updates all weights that are Muon's. part_of(unit) is the part of a unit that this rank
  // updates, without second moments. Collective over the ranks that have parts of them.
  using PartOf = std::function<AdamWTensors(size_t unit)>;
  void update(Stream& stream, const PartOf& part_of, const AdamWStep& step);

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
  void run_round(Stream& stream, const Group& group, size_t round, const PartOf& part_of,
                 const AdamWStep& step);
  // Makes weights orthogonal. `parts` has what each rank has of all of them, rank by rank.
  void run_at_home(Stream& stream, const MuonHomes::Weights& weights, TensorView parts,
                   double learning_rate);
  // Copies between the parts of weights[i] and the whole of it, slice by slice.
  void copy_parts(Stream& stream, const MuonHomes::Weights& weights, size_t i, TensorView parts,
                  TensorView whole, bool to_whole);
  // Returns what this rank updates of a weight.
  AdamWTensors own_part(const PartOf& part_of, const HomedWeight& weight,
                        const WeightPart& part) const;

  const Layout& layout_;
  size_t rank_;
  bool is_sharded_;
  double momentum_;
  SecondMoments seconds_;
  std::deque<Group> groups_;
  Muon muon_;
  Tensor own_;    // this rank's parts of a round's weights
  Tensor home_;   // all parts of the weights whose home it is; empty if it is alone
  Tensor whole_;  // one of these weights; empty if no parts have to be put together
  Tensor slice_;  // a slice of it; empty, too, if ranks have no slices
};

}  // namespace ladder
