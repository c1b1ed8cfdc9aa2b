// How ranks that share the global batch come to the same update.
#pragma once

#include "common/model/hooks.h"
#include "kernels/adamw.h"

namespace ladder {

// Adds up the gradients of all ranks and updates the parameters. Each lesson that has another way
// to do that implements it: whole gradients in buckets, shards of them, ...
class GradientSync {
 public:
  virtual ~GradientSync() = default;

  // Hooks for the backward in which gradients become final: that of a step's last micro-batch. They
  // start the sum of each part of the gradients as soon as it is final, while backward goes on.
  // Call once a step.
  virtual Hooks hooks() = 0;
  // What is queued on the trainer's stream from now on finds this rank's part of all gradients
  // summed. Starts what the hooks have not started.
  virtual void wait() = 0;
  // The part of a unit's gradient that wait() makes the sum over the ranks: all of it, or a shard.
  virtual TensorView summed(size_t unit) const = 0;
  // Updates the parameters, on every rank the same. REQUIRES: wait() in this step.
  virtual void update(const AdamWStep& numbers) = 0;
};

}  // namespace ladder
