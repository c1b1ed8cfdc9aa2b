// Runs the model on micro-batches: their tokens, what forward saves for backward, and the losses.
#pragma once

#include <functional>
#include <vector>

#include "common/model/gpt2.h"
#include "common/train/micro_batch.h"

namespace ladder {

// A micro-batch from the loading of its tokens to its backward.
struct MicroBatch {
  BatchLoader batch;
  Activations activations;
};

// The passes over one micro-batch, in the order in which a trainer calls them: load, forward, then
// classify and backward, or evaluate. All but total_loss are asynchronous on the context's stream.
class ModelRunner {
 public:
  struct Options {
    size_t num_slots = 1;        // micro-batches that are between forward and backward at a time
    TensorParallel tensor = {};  // where ranks hold slices of tensors, what meets the others
    MemorySource* summed = nullptr;  // where the memory comes from that these ranks add up
  };
  // `parameters` and `gradients` as Gpt2 has them. The context, the layout and the views must
  // outlive this.
  ModelRunner(const TrainerContext& context, const Layout& layout, ConstTensorView parameters,
              TensorView gradients, Options options);
  ModelRunner(const TrainerContext& context, const Layout& layout, ConstTensorView parameters,
              TensorView gradients)
      : ModelRunner(context, layout, parameters, gradients, Options()) {}

  // Sequences [first_sequence, first_sequence + micro batch size) of a global batch of the split.
  void load(Split split, int64_t step, size_t first_sequence, size_t slot = 0);
  void forward(const Hooks& hooks = {}, size_t slot = 0);
  // Adds the losses to the total. Gradients are those of `token_weight` times the sum of the losses
  // of all tokens.
  void classify(double token_weight, const Hooks& hooks = {}, size_t slot = 0);
  // Adds the gradients of the micro-batch.
  void backward(const Hooks& hooks = {}, size_t slot = 0);
  // Adds the losses to the total, and computes no gradient.
  void evaluate(const Hooks& hooks = {}, size_t slot = 0);
  // Loads, runs forward and evaluates sequences [first, end) of a global batch of the validation
  // split, micro-batch by micro-batch. `hooks` makes those of a micro-batch.
  void evaluate_sequences(
      size_t batch, size_t first, size_t end,
      const std::function<Hooks()>& hooks = [] { return Hooks(); });
  // The sum of the losses of all tokens since it was last asked. Synchronizes.
  double total_loss() { return losses_.total(); }

  // For pipelines: the residual stream where this part of the model begins and ends, and the
  // gradient with respect to either, which backward replaces by the other. (R, C)
  TensorView input(size_t slot) { return slots_[slot].activations.input(); }
  TensorView output(size_t slot) { return slots_[slot].activations.output(); }
  TensorView d_residual(size_t slot) { return workspace_.d_residual(slots_[slot].activations); }

 private:
  Stream& stream_;
  size_t micro_batch_size_;
  std::vector<MicroBatch> slots_;
  ModelWorkspace workspace_;
  Gpt2 model_;
  LossSum losses_;
};

}  // namespace ladder
