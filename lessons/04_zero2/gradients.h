// Gradients that are whole only while a unit's backward runs.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/comm/communicator.h"
#include "common/train/gradient_sync.h"
#include "common/train/model_state.h"

namespace ladder {

// Gives backward scratch for the gradient of the unit it is at, sums it over the ranks as soon as
// it is final, and keeps this rank's shard of the sum. Units take turns in the slots of scratch:
// while backward fills one, the sum of the unit before is under way in another.
//
// A unit whose gradient is written by several operations has a slot of its own. In GPT-2 that is
// the token embedding: its gradient begins with the classifier and is final at the very end.
// Summing it in two parts would cost its bytes twice and change the bits.
class GradientShards : public GradientSync {
 public:
  // REQUIRES: a state with this rank's shards of gradients and moments; num_slots >= 2. Allocates
  // the scratch: units with a slot of their own, and num_slots times the largest other unit.
  // Category: communication.
  GradientShards(const TrainerContext& context, ModelState& state, Communicator& ranks,
                 size_t num_slots = 2);

  // For the backward of every micro-batch: nobody keeps whole gradients until the last one.
  Hooks hooks() override;
  void wait() override;
  // In the state's gradients.
  TensorView summed(size_t unit) const override { return state_.shard(state_.gradients, unit); }
  // REQUIRES: a state with whole parameters.
  void update(const AdamWStep& step) override;

 protected:
  // Adds this rank's shard of a unit's sum to the shard that it keeps, when `sum` has been waited
  // for. Asynchronous: returns the stream on which it is queued.
  virtual Stream& keep(size_t unit, Work& sum, ConstTensorView shard);

  ModelState& state_;

 private:
  struct Slot {
    Tensor memory;
    bool open = false;              // backward is adding to it
    std::optional<size_t> summing;  // the unit whose sum is under way
    Work sum;
    std::unique_ptr<Event> kept;  // null: nothing was ever summed here
  };
  Slot& slot_of(size_t unit) { return slots_[slot_of_unit_[unit]]; }
  UnitView open(size_t unit);
  void close(size_t unit);
  // Has what is under way in the slot kept.
  void keep(Slot& slot);

  Communicator& ranks_;
  std::vector<size_t> slot_of_unit_;
  std::vector<Slot> slots_;
};

}  // namespace ladder
