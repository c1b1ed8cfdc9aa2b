// Gradients of ZeRO-2: a unit's gradient is whole only while its backward runs.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/comm/communicator.h"
#include "common/train/trainer/gradient_sync.h"
#include "common/train/trainer/model_state.h"

namespace ladder {

// GradientShards gives backward a buffer of scratch for the gradient of the current unit, sums the
// gradient over the ranks as soon as it is final, and keeps this rank's shard of the sum. Units
// take turns in the buffers: while backward fills one, the sum of the last unit is under way in
// another.
//
// A unit to whose gradient several operations add has a buffer of its own. In GPT-2 that is the
// token embedding: its gradient begins with the classifier and is final at the very end of
// backward. Summing it in two parts would cost its bytes twice and change the bits.
class GradientShards : public GradientSync {
 public:
  // Allocates the buffers: one for each unit with a buffer of its own, and num_buffers as large as
  // the largest other unit. Category: communication. REQUIRES: the state has this rank's shards of
  // gradients and moments, and num_buffers >= 2.
  GradientShards(const TrainerContext& context, ModelState& state, Communicator& ranks,
                 size_t num_buffers = 2);

  // Unlike other lessons' hooks, these are for the backward of every micro-batch, since no rank
  // keeps whole gradients until the last one.
  Hooks hooks() override;
  void wait() override;
  // Returns this rank's shard, which is in the state's gradients.
  TensorView summed(size_t unit) const override { return state_.shard(state_.gradients, unit); }
  // REQUIRES: the state has whole parameters.
  double update(double norm) override;

 protected:
  // Waits for `sum` on a stream, and adds `shard`, this rank's shard of the unit's sum, to the
  // state's gradients. Asynchronous; returns the stream on which it is queued.
  virtual Stream& keep(size_t unit, Work& sum, ConstTensorView shard);

  ModelState& state_;
  const Layout& layout_;  // of gradients

 private:
  struct Buffer {
    Tensor memory;
    bool open = false;              // true while backward adds to it
    std::optional<size_t> summing;  // the unit whose sum is under way
    Work sum;
    // The event after the last keep(), from when on the buffer may be used again. Null if nothing
    // has been summed here yet.
    std::unique_ptr<Event> kept;
  };
  Buffer& buffer_of(size_t unit) { return buffers_[buffer_of_unit_[unit]]; }
  UnitView open(size_t unit);
  void close(size_t unit);
  // If a sum is under way in the buffer, adds its shard to the state's gradients.
  void keep(Buffer& buffer);

  Communicator& ranks_;
  std::vector<size_t> buffer_of_unit_;
  std::vector<Buffer> buffers_;
};

}  // namespace ladder
