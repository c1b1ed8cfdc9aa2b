// What ModelState has in runs with Muon: where moments lie, and the update.
#pragma once

#include <optional>
#include <vector>

#include "common/model/muon.h"
#include "common/model/slices.h"
#include "common/train/trainer/model_state.h"

namespace ladder {

// The elements of a parameter that this rank updates.
struct UpdatedRange {
  const Parameter* parameter;
  size_t unit;
  size_t first, count;           // elements of the parameter
  size_t begin;                  // the element of the flat buffer at which they begin
  size_t moment;                 // the element of exp_avg, and of the masters
  std::optional<size_t> second;  // that of exp_avg_sq; nothing if Muon updates them
};

// UpdatedRanges says what this rank updates under Muon. The moments of these ranges lie one after
// the other, without padding. Muon's momentum is the first moment, and it has no second one.
class UpdatedRanges {
 public:
  // Of a layout Layout::trained(), which must outlive this object.
  UpdatedRanges(const OptimizerConfig& config, const Layout& layout);

  const std::vector<UpdatedRange>& all() const { return all_; }
  size_t num_moments() const { return num_moments_; }
  size_t num_seconds() const { return num_seconds_; }
  std::vector<const Parameter*> parameters() const;

  // Return the slices of a buffer of first or of second moments: all, or those among them that rank
  // `rank` owns (owned_range).
  std::vector<Slice> moments(TensorView buffer, std::optional<size_t> rank = {}) const;
  std::vector<Slice> seconds(TensorView buffer, std::optional<size_t> rank = {}) const;

 private:
  const Layout& layout_;
  std::vector<UpdatedRange> all_;
  size_t num_moments_ = 0, num_seconds_ = 0;
};

// MuonState updates a ModelState whose matrices are Muon's.
class MuonState {
 public:
  // Allocates Muon's workspace.
  MuonState(const TrainerContext& context, UpdatedRanges ranges);

  const UpdatedRanges& ranges() const { return ranges_; }
  int64_t num_calls() const { return muon_.num_calls(); }

  // Updates the state: matrices with Muon, and the other ranges with AdamW. `layout` is that of its
  // parameters.
  void update(Stream& stream, const Layout& layout, ModelState& state, const AdamWStep& step);
  // Sets the state's masters to its parameters. Synchronizes the stream.
  void set_masters(Stream& stream, const Layout& layout, ModelState& state);

 private:
  UpdatedRanges ranges_;
  Muon muon_;
};

}  // namespace ladder
