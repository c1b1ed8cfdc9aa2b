// What ModelState has in runs with Muon: which second moments there are, and the update of weights.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "common/comm/communicator.h"
#include "common/model/muon.h"
#include "common/model/muon_homes.h"
#include "common/model/slices.h"
#include "common/train/trainer/model_state.h"

namespace ladder {

// The elements of a parameter that this rank updates.
struct UpdatedRange {
  const Parameter* parameter;
  size_t unit;
  size_t first, count;           // elements of what the rank holds of the parameter
  size_t begin;                  // the element of the flat buffer at which they begin
  size_t within;                 // their first element in the part of the unit that it updates
  std::optional<size_t> second;  // the element of exp_avg_sq; nothing if Muon updates them
};

// UpdatedRanges says what this rank updates under Muon. Momentum is the first moment, in a buffer
// like AdamW's. Second moments lie one after the other, without padding and without those of
// weights that Muon updates, which have none.
class UpdatedRanges {
 public:
  // Of a layout Layout::trained(), which must outlive this object. If `is_sharded`, rank `rank` of
  // it updates its shards.
  UpdatedRanges(const OptimizerConfig& config, const Layout& layout, size_t rank, bool is_sharded);

  const std::vector<UpdatedRange>& all() const { return all_; }
  size_t num_seconds() const { return num_seconds_; }
  // Return the slices of a buffer of second moments: all, or those that this rank owns
  // (owned_range).
  std::vector<Slice> held(TensorView seconds) const;
  std::vector<Slice> owned(TensorView seconds) const;
  // Returns what AdamW updates of a unit; `all` is all that is updated of it.
  std::vector<AdamWTensors> others(size_t unit, const AdamWTensors& all, TensorView seconds) const;

 private:
  const Layout& layout_;
  size_t rank_;
  std::vector<UpdatedRange> all_;
  size_t num_seconds_ = 0;
};

// MuonState updates the weights of a ModelState that are Muon's. In each round a rank makes one
// weight orthogonal: the ranks that have parts of it send them to its home, and the home sends back
// what moves them. A rank that is alone has whole weights, and sends nothing.
class MuonState {
 public:
  // Allocates workspace. `layout` is Layout::trained().
  MuonState(const TrainerContext& context, const Layout& layout, size_t rank, bool is_sharded,
            const MuonRanks& ranks);

  const UpdatedRanges& ranges() const { return ranges_; }
  int64_t num_calls() const { return muon_.num_calls(); }

  // Updates all weights that are Muon's. part_of(unit) is what this rank updates of a unit, without
  // second moments. Collective over the ranks that have parts of them.
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
  void run_round(Stream& stream, const Group& group, size_t round, const PartOf& part_of,
                 const AdamWStep& step);
  // Makes a weight orthogonal, whose parts lie one after the other in the order of the ranks.
  void run_at_home(Stream& stream, const HomedWeight& weight, TensorView parts,
                   double learning_rate);
  // Copies between the parts and the whole weight, slice by slice.
  void copy_slices(Stream& stream, const HomedWeight& weight, TensorView parts, TensorView whole,
                   bool to_whole);
  // Returns what this rank updates of a weight.
  AdamWTensors own_part(const PartOf& part_of, const HomedWeight& weight,
                        const WeightPart& part) const;

  const Layout& layout_;
  size_t rank_;
  bool is_sharded_;
  double momentum_;
  UpdatedRanges ranges_;
  std::deque<Group> groups_;
  Muon muon_;
  Tensor own_;            // this rank's parts of a round's weights
  Tensor home_;           // all parts of the weight whose home it is; empty if it is alone
  Tensor whole_, slice_;  // that weight, and a slice of it; empty without tensor parallelism
};

}  // namespace ladder
