// Parameters that are whole only while a unit uses them.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "common/comm/communicator.h"
#include "common/model/hooks.h"
#include "common/train/model_state.h"

namespace ladder {

struct GatherOptions {
  size_t prefetch = 1;          // units gathered ahead of the one in use
  bool keep_embedding = false;  // the token embedding stays from the embedding to the classifier
  bool reshard_after_forward = true;  // false: every unit stays from forward to backward
  void add_to(CLI::App& app, const char* group);
};

// Gathers each unit's parameters from all ranks' shards just before the model uses them, the next
// `prefetch` ones meanwhile, and gives their memory to later units afterwards. Which units the
// model uses in which order is known beforehand: it is the walk (common/model/walk.h).
class UnitGatherer {
 public:
  // REQUIRES: a state with this rank's shards of the parameters, where peers can read them in
  // place. Allocates memory for gathered units: the token embedding, which the classifier uses too
  // and which therefore has a slot of its own, and prefetch + 1 times the largest other unit;
  // without resharding after forward all units. `source`: where that memory comes from; null: the
  // arena. Category: communication.
  UnitGatherer(const TrainerContext& context, ModelState& state, Communicator& ranks,
               const GatherOptions& options, MemorySource* source = nullptr);
  virtual ~UnitGatherer() = default;
  // What one training micro-batch gathers.
  static Traffic traffic(const Layout& layout, const GatherOptions& options, DType dtype);

  // weights and done, for one micro-batch that uses units in the order of `walk`.
  Hooks hooks(const std::vector<Use>& walk);
  // The most units that were gathered, or being gathered, at one time.
  size_t most_gathered() const { return most_gathered_; }

 protected:
  // Begins to bring all shards of the unit's parameters into `whole`.
  virtual Work gather(size_t unit, TensorView whole, const CallOptions& options);

  ModelState& state_;
  Communicator& ranks_;

 private:
  // A use that reads weights, and what that takes.
  struct Read {
    Use use;
    bool gathers = true;   // false: the weights are still there from the read before
    bool releases = true;  // false: a later read finds them there
  };
  struct Slot {
    Tensor memory;
    Work gather;         // the last that was started
    bool taken = false;  // holds, or is about to hold, a unit that has not been released
  };
  // The reads of a walk, in order.
  static std::vector<Read> plan(const GatherOptions& options, const std::vector<Use>& walk);

  size_t num_taken() const;
  Slot& slot_of(size_t unit) { return slots_[slot_of_unit_[unit]]; }
  TensorView memory_of(size_t unit);
  void start(const Read& read);
  ConstUnitView weights(const Use& use);
  void done(const Use& use);

  GatherOptions options_;
  std::vector<size_t> slot_of_unit_;
  std::vector<Slot> slots_;

  std::vector<Read> reads_;
  size_t current_ = 0, next_ = 0;  // the read that the model is at, the first not yet started
  size_t most_gathered_ = 0;
};

// Weights from `gather`, gradients to `scatter`; both are told what is done.
Hooks combined(const Hooks& gather, const Hooks& scatter);

}  // namespace ladder
