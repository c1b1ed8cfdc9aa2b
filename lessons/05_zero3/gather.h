// Parameters of ZeRO-3: a unit's parameters are whole only while the model uses them.
#pragma once

#include <vector>

#include "common/comm/communicator.h"
#include "common/model/hooks.h"
#include "common/train/trainer/flag_value.h"
#include "common/train/trainer/model_state.h"

namespace ladder {

struct GatherOptions {
  size_t prefetch = 1;          // units that are gathered ahead of the one in use
  bool keep_embedding = false;  // true: the token embedding stays until the classifier uses it
  bool reshard_after_forward = true;  // false: every unit stays from forward to backward
  void add_to(FlagTable& flags, const char* heading);
};

// UnitGatherer gathers each unit's parameters from all ranks' shards just before the model uses
// them, and the next `prefetch` units meanwhile. Afterwards later units get their memory. It knows
// the order in which the model uses units beforehand: it is the walk (common/model/walk.h).
class UnitGatherer {
 public:
  // Allocates buffers for gathered units. The token embedding has a buffer of its own, because the
  // classifier uses it too; there are prefetch + 1 more buffers, as large as the largest other
  // unit. Without resharding after forward every unit has a buffer. Category: communication.
  // Buffers are in registered memory: what comes from another machine is written there for all
  // ranks of this one. REQUIRES: the state has this rank's shards of the parameters, in memory that
  // peers can read in place, or gather() copies them to such memory.
  UnitGatherer(const TrainerContext& context, ModelState& state, Communicator& ranks,
               const GatherOptions& options);
  virtual ~UnitGatherer() = default;

  // Returns the hooks `weights` and `done` for one micro-batch that uses units in the order of
  // `walk`. REQUIRES: the micro-batch before has ended.
  Hooks hooks(const std::vector<Use>& walk);
  // Returns the largest number of units that were gathered, or being gathered, at the same time.
  size_t most_gathered() const { return most_gathered_; }

 protected:
  // Begins to gather all shards of a part of the unit into `whole`.
  virtual Work gather(size_t unit, UnitPart part, TensorView whole, const CallOptions& options);

  ModelState& state_;
  Communicator& ranks_;

 private:
  // A use that reads weights.
  struct Read {
    Use use;
    bool gathers = true;   // false: the weights are still there from the unit's last read
    bool releases = true;  // false: the weights stay for a later read
  };
  struct Buffer {
    Tensor memory;
    std::vector<Work> gathers;  // of the last unit's parts, until they have been waited for
    bool taken = false;         // true from the start of a gather until the unit is released
  };
  // Returns the reads of a walk, in order.
  static std::vector<Read> plan(const GatherOptions& options, const std::vector<Use>& walk);

  size_t num_taken() const;
  Buffer& buffer_of(size_t unit) { return buffers_[buffer_of_unit_[unit]]; }
  TensorView memory_of(size_t unit);
  void start(const Read& read);
  ConstUnitView weights(const Use& use);
  void done(const Use& use);

  GatherOptions options_;
  std::vector<size_t> buffer_of_unit_;
  std::vector<Buffer> buffers_;

  std::vector<Read> reads_;
  size_t current_ = 0;  // the read that the model is at
  size_t next_ = 0;     // the first read whose gather has not been started
  size_t most_gathered_ = 0;
};

// Returns hooks that take weights from `gather` and gradients from `scatter`, and call `done` of
// both.
Hooks combined(const Hooks& gather, const Hooks& scatter);

}  // namespace ladder
