// Everything that training on one device needs in memory.
#pragma once

#include <vector>

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
  // Everything, as in a flat buffer of the layout. `gradients`: where peers can sum them in place.
  static StateShare whole(const Layout& layout, MemorySource* gradients = nullptr) {
    const size_t elements = layout.num_elements();
    return {{elements}, {elements, false, gradients}, {elements}};
  }
  // One rank's shard of every unit.
  static StateShare shards(const Layout& layout) {
    const size_t elements = layout.num_elements() / layout.world_size();
    return {{elements}, {elements}, {elements}};
  }

  Part parameters, gradients, moment;  // there are two moments, and in low precision a master
};

// A micro-batch between its forward and its backward: rows, and what forward saves.
struct MicroBatch {
  BatchLoader batch;
  Activations activations;
};

// In bf16 and fp16 ("x") gradients, moments and a master copy of the parameters are fp32 ("a"):
// AdamW updates the masters, and the parameters that the model computes with are these, rounded.
// [Micikevicius18, section 3.1] Otherwise x is a, and the parameters are the masters.
//
// A copy of the model (or, from lesson 07 on, of a part of it) with its gradients and AdamW's two
// moments, whole or (from lesson 03 on) a rank's share of them; the memory of micro-batches; and
// the model's functions on them.
struct Replica {
  // With the elements of `share`: parameters of x, gradients and twice moment of a, once more if x
  // is not a; activations and workspace as their classes say. The ranks of the layout share the
  // global batch. `num_slots` micro-batches are between their forward and their backward at a time.
  static Prediction predict(const RunConfig& config, const Layout& layout, const StateShare& share,
                            size_t num_slots = 1);

  // Allocates, and initializes the parameters that it holds from the seed or from --init.
  Replica(const TrainerContext& context, const Layout& layout, const StateShare& share,
          size_t num_slots = 1);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // Rows [first_row, first_row + micro batch) of a global batch of the split, forward, in slot 0.
  void forward(Split split, int64_t step, size_t first_row, const Hooks& hooks = {});
  // After forward: adds the micro-batch's loss and gradients. `loss_scale`: dloss of one token.
  void backward(double loss_scale, const Hooks& hooks = {});
  // After forward: adds the micro-batch's loss.
  void evaluate(const Hooks& hooks = {});
  // Updates all parameters.
  void update(const AdamWStep& step);
  // Masters = the parameters, widened, as far as this rank has both. REQUIRES: there are masters.
  void masters_from_parameters();
  // The sum of the squares of this rank's shards of the gradients. Synchronizes.
  double squared_norm();
  // The buffer of one kind; of parameters the masters.
  TensorView buffer(TensorKind kind) const;
  // This rank's shard of a unit, in a buffer that is whole or holds the rank's shards alone.
  TensorView shard_of(TensorView buffer, size_t unit) const;
  TensorView shard(TensorKind kind, size_t unit) const { return shard_of(buffer(kind), unit); }
  // Tensors of one kind, as this rank has them. REQUIRES: the buffer is whole.
  void visit(TensorKind kind, const TensorSink& sink);

  // `hooks`, and spans of the trace where there is one.
  Hooks traced(const Hooks& hooks);

  TrainerContext context;
  Layout layout;
  size_t rank;  // of those that share the global batch
  Stream host_stream{DeviceType::cpu};
  Tensor parameters, gradients, exp_avg, exp_avg_sq;
  Tensor master;  // where it is not the parameters
  std::vector<MicroBatch> slots;
  ModelWorkspace workspace;
  Gpt2 model;
  LossSum losses;
  GradNorm grad_norm;
  ParameterStaging staging;

 private:
  void initialize();
  // Where work on this memory is queued.
  Stream& stream_of(const TensorView& view);
};

}  // namespace ladder
