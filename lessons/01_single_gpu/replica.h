// Everything that training on one device needs in memory.
#pragma once

#include "common/model/gpt2.h"
#include "common/model/optimizer.h"
#include "common/train/micro_batch.h"
#include "common/train/trainer.h"

namespace ladder {

// How much of the model's state a rank holds, and where.
struct StateShare {
  struct Part {
    size_t elements = 0;
    bool on_host = false;            // in the host's arena instead of the device's
    MemorySource* source = nullptr;  // null: the arena's own
  };
  // Everything, as in a flat buffer of the layout.
  static StateShare whole(const Layout& layout) {
    return {{layout.num_elements()}, {layout.num_elements()}, {layout.num_elements()}};
  }
  // One rank's shard of every unit.
  static StateShare shards(const Layout& layout) {
    const size_t elements = layout.num_elements() / layout.world_size();
    return {{elements}, {elements}, {elements}};
  }

  Part parameters, gradients, moment;  // there are two moments
};

// A copy of the model with its gradients and AdamW's two moments, whole or (from lesson 03 on) a
// rank's share of them; the memory of one micro-batch; and the model's functions on them.
struct Replica {
  // With s bytes an element and the elements of `share`: parameters, gradients, twice moment, and
  // activations and workspace as their classes say. The ranks of the layout share the global batch.
  static Prediction predict(const RunConfig& config, const Layout& layout, const StateShare& share);

  // Allocates, and initializes the parameters that it holds from the seed or from --init. The rank
  // is that in context.world, or 0 where there is none.
  Replica(const TrainerContext& context, const Layout& layout, const StateShare& share);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // Rows [first_row, first_row + micro batch) of a global batch of the split, forward.
  void forward(Split split, int64_t step, size_t first_row, const Hooks& hooks = {});
  // After forward: adds the micro-batch's loss and gradients. `loss_scale`: dloss of one token.
  void backward(double loss_scale, const Hooks& hooks = {});
  // After forward: adds the micro-batch's loss.
  void evaluate(const Hooks& hooks = {});
  // Updates all parameters.
  void update(const AdamWStep& step);
  // The sum of the squares of this rank's shards of the gradients. Synchronizes.
  double squared_norm();
  // The buffer of one kind.
  TensorView buffer(TensorKind kind) const;
  // This rank's shard of a unit: in a whole buffer, or in one that holds the rank's shards alone.
  TensorView shard(TensorKind kind, size_t unit) const;
  // Full tensors of one kind. REQUIRES: the buffer is whole.
  void visit(TensorKind kind, const TensorSink& sink);

  // `hooks`, and spans of the trace where there is one.
  Hooks traced(const Hooks& hooks);

  TrainerContext context;
  Layout layout;
  size_t rank;
  Stream host_stream{DeviceType::cpu};
  Tensor parameters, gradients, exp_avg, exp_avg_sq;
  Activations activations;
  ModelWorkspace workspace;
  Gpt2 model;
  BatchLoader batch;
  LossSum losses;
  GradNorm grad_norm;
  ParameterStaging staging;

 private:
  void initialize();
  // Where work on this memory is queued.
  Stream& stream_of(const TensorView& view);
};

}  // namespace ladder
