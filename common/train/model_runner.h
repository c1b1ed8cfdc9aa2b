// Runs the model on micro-batches. It holds their tokens, the activations that forward saves for
// backward, and the sum of the losses.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/model/gpt2.h"
#include "common/train/micro_batch.h"

namespace ladder {

class ActivationOffload;

// A slot: what one micro-batch needs from the loading of its tokens to its backward.
struct MicroBatch {
  BatchLoader batch;
  Activations activations;
};

// A trainer calls the passes over one micro-batch in this order: load, forward, then either
// classify and backward, or evaluate. They are queued on the context's stream, and run
// asynchronously; load and total_loss also wait for the stream.
class ModelRunner {
 public:
  struct Options {
    size_t num_slots = 1;        // micro-batches that may be between forward and backward
    TensorParallel tensor = {};  // how ranks that hold slices of tensors combine results
    // The source of the memory that these ranks sum or gather; null: the arena.
    MemorySource* summed = nullptr;
    SequencePart part = {};        // the tokens of each sequence that this rank has
    ContextParallel context = {};  // attention, where ranks have different tokens
    Mixture* mixture = nullptr;    // what runs the experts of blocks that have them
  };
  // `parameters` and `gradients` are those of Gpt2 (common/model/gpt2.h). The context, the layout
  // and the two buffers must outlive this object.
  ModelRunner(const TrainerContext& context, const Layout& layout, ConstTensorView parameters,
              TensorView gradients, Options options);
  ModelRunner(const TrainerContext& context, const Layout& layout, ConstTensorView parameters,
              TensorView gradients)
      : ModelRunner(context, layout, parameters, gradients, Options()) {}
  ~ModelRunner();

  // Returns the order in which a training micro-batch uses the units.
  const std::vector<Use>& training_walk() const { return model_.training_walk(); }

  // Loads sequences [first_sequence, first_sequence + micro-batch size) of the split's global batch
  // number `step` into a slot.
  void load(Split split, int64_t step, size_t first_sequence, size_t slot = 0);
  // Runs forward from the tokens, or from input(slot), to output(slot).
  void forward(const Hooks& hooks = {}, size_t slot = 0);
  // Runs the classifier: adds the losses to the total and begins the gradients, which are those of
  // `token_weight` times the sum of the losses of all tokens.
  void classify(double token_weight, const Hooks& hooks = {}, size_t slot = 0);
  // Adds the micro-batch's gradients to the gradients.
  void backward(const Hooks& hooks = {}, size_t slot = 0);
  // Runs the classifier without gradients: adds the losses to the total.
  void evaluate(const Hooks& hooks = {}, size_t slot = 0);
  // Loads sequences [first, end) of a global batch of the validation split and runs forward and
  // evaluate on them, micro-batch by micro-batch. `hooks` returns the hooks of one micro-batch.
  void evaluate_sequences(
      size_t batch, size_t first, size_t end,
      const std::function<Hooks()>& hooks = [] { return Hooks(); });
  // Returns the sum of the losses of all tokens since the last call. Synchronizes the stream.
  double total_loss() { return losses_.total(); }

  // These three are for pipelines, and have the shape (n, C) for the rows of the residual stream
  // that this rank has (ModelPart::residual), which are usually all R: the residual stream
  // where this part of the model begins, the residual stream where it ends, and a gradient. Before
  // backward d_residual is the gradient with respect to output(); backward turns it into that with
  // respect to input().
  TensorView input(size_t slot) { return slots_[slot].activations.input(); }
  TensorView output(size_t slot) { return slots_[slot].activations.output(); }
  TensorView d_residual(size_t slot) { return workspace_.d_residual(slots_[slot].activations); }

 private:
  // Returns the hooks, with the copies added that offloading needs.
  Hooks with_offload(const Hooks& hooks, size_t slot);

  Stream& stream_;
  size_t micro_batch_size_;
  std::vector<MicroBatch> slots_;
  ModelWorkspace workspace_;
  std::unique_ptr<ActivationOffload> offload_;  // null: activations wait on the device
  Gpt2 model_;
  LossSum losses_;
};

}  // namespace ladder
