// The interface through which ranks that share the global batch make the same update.
#pragma once

#include "common/model/hooks.h"

namespace ladder {

// A GradientSync adds up the gradients of all ranks and updates the parameters. Each lesson that
// does this in its own way implements it: whole gradients in buckets (02), shards (03), and so on.
class GradientSync {
 public:
  virtual ~GradientSync() = default;

  // Returns hooks for the backward of a step's last micro-batch, in which gradients become final.
  // The hooks start the sum of each part of the gradients as soon as it is final, while backward
  // goes on. Call it once a step.
  virtual Hooks hooks() = 0;
  // Starts the sums that the hooks have not started, and makes the trainer's stream wait for all of
  // them: work that is queued from now on finds this rank's part of all gradients summed.
  virtual void wait() = 0;
  // Returns the part of a unit's gradient that is summed after wait(): all of it, or this rank's
  // shard.
  virtual TensorView summed(size_t unit) const = 0;
  // Updates the parameters by ModelState::update(), and returns the learning rate. All ranks then
  // hold the same values. REQUIRES: wait() in this step.
  virtual double update(double norm) = 0;
};

}  // namespace ladder
