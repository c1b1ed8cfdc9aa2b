// Runs the model on micro-batches. It holds their tokens, the activations that forward saves for
// backward, and the sum of the losses.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/model/model.h"
#include "common/train/trainer/micro_batch.h"

namespace ladder {

class ActivationOffload;

// A trainer calls the passes over one micro-batch in this order: load, forward, then either
// classify and backward, or evaluate. They are queued on the context's stream, and run
// asynchronously; load and total_loss also wait for the stream.
//
// An activation buffer is what one micro-batch needs from the loading of its tokens to its
// backward. Pipelines have several, and name one in each call; all others have one, number 0.
//
// A pipeline stage may also hold several model chunks, which do not follow each other in the model
// (common/schedule/placement.h); all others have one, number 0. Parameters and gradients lie in the
// stage's buffers, and hooks count the stage's units: chunks that share a unit find the same one.
// An activation buffer fits the largest chunk, and any chunk may use it: a stage needs one for each
// micro-batch in flight. Chunks also share the memory of what their blocks drop (--recompute).
class ModelRunner {
 public:
  struct Options {
    size_t num_buffers = 1;      // micro-batches that may be between forward and backward
    TensorParallel tensor = {};  // how ranks that hold slices of tensors combine results
    // The source of the memory that these ranks sum or gather; null: the arena.
    MemorySource* summed = nullptr;
    SequenceSlice part = {};       // the tokens of each sequence that this rank has
    ContextParallel context = {};  // attention, where ranks have different tokens
    Mixture* mixture = nullptr;    // what runs the experts of blocks that have them
    // The layouts of the model chunks; empty: there is one, with the layout of all.
    std::span<const Layout> chunks = {};
  };
  // `layout` has all that this rank holds. `parameters` and `gradients` are as for Model
  // (common/model/model.h). The context, the layouts and the two buffers must outlive this object.
  // REQUIRES: there is one chunk if activations wait on the host.
  ModelRunner(const TrainerContext& context, const Layout& layout, ConstTensorView parameters,
              TensorView gradients, const Options& options);
  ModelRunner(const TrainerContext& context, const Layout& layout, ConstTensorView parameters,
              TensorView gradients)
      : ModelRunner(context, layout, parameters, gradients, Options()) {}
  ~ModelRunner();

  // Returns the order in which a training micro-batch uses the units. REQUIRES: there is one chunk.
  const std::vector<Use>& training_walk() const { return models_.front().training_walk(); }
  // Returns the chunk's units, by the numbers that they have on the stage.
  const std::vector<size_t>& units(size_t chunk) const { return units_[chunk]; }
  // Returns whether the chunk reads tokens, their positions or targets, so that it has to load().
  bool needs_tokens(size_t chunk) const;
  bool has_classifier(size_t chunk) const { return chunks_[chunk].has(OperationKind::classifier); }

  // Loads sequences [first_sequence, first_sequence + micro-batch size) of the split's global batch
  // number `step` into an activation buffer.
  void load(Split split, int64_t step, size_t first_sequence, size_t buffer = 0);
  // Runs forward from the tokens, or from input(), to output().
  void forward(const Hooks& hooks = {}, size_t buffer = 0, size_t chunk = 0);
  // Returns how many tokens of `num_batches` global batches, from that of `step` on, count in
  // the loss (kIgnored); 1 if none does, so that a loss can be divided by it. They are those of all
  // ranks, which need not ask each other (counted_targets). A loss is a mean over all the batches:
  // a mean of means, of ranks, micro-batches or batches, would weigh a token more where few tokens
  // count.
  double counted_tokens(Split split, int64_t step, size_t num_batches = 1) const;
  double counted_in_validation(size_t num_batches) const {
    return counted_tokens(Split::validation, 0, num_batches);
  }

  // Runs the classifier: adds the losses of all tokens to the total, and begins backward. What
  // backward differentiates is `token_weight` times the sum of these losses.
  void classify(double token_weight, const Hooks& hooks = {}, size_t buffer = 0, size_t chunk = 0);
  // Runs backward, or one half of it, and adds what it computes to the gradients.
  void backward(const Hooks& hooks = {}, size_t buffer = 0, size_t chunk = 0,
                BackwardHalf half = BackwardHalf::both);
  // Runs the classifier without gradients: adds the losses to the total, and a head's hits.
  void evaluate(const Hooks& hooks = {}, size_t buffer = 0, size_t chunk = 0);
  // Loads sequences [first, end) of a global batch of the validation split and runs forward and
  // evaluate on them, micro-batch by micro-batch. `hooks` returns the hooks of one micro-batch.
  void evaluate_sequences(
      size_t batch, size_t first, size_t end,
      const std::function<Hooks()>& hooks = [] { return Hooks(); });
  // Returns the sum of the losses of all tokens since the last call. Synchronizes the stream.
  double total_loss() { return losses_.total(); }

  // These three are for pipelines, and have the shape (n, C): this rank's rows of the residual
  // stream (ModelPartition::residual) where a chunk begins, where it ends, and a gradient. Backward
  // turns d_residual from the gradient with respect to output() into the one with respect to
  // input(). From forward of the next chunk on, output() may be overwritten.
  TensorView input(size_t buffer, size_t chunk = 0) const {
    return activations(buffer, chunk).input();
  }
  TensorView output(size_t buffer, size_t chunk = 0) const {
    return activations(buffer, chunk).output();
  }
  TensorView d_residual(size_t buffer = 0) const {
    return workspace_.d_residual(activations(buffer, 0));
  }

 private:
  struct Buffer;
  struct Dropped;

  const Activations& activations(size_t buffer, size_t chunk) const;
  // Turns hooks that count the stage's units into hooks that count the chunk's.
  Hooks of_chunk(const Hooks& hooks, size_t chunk) const;
  // Returns the same with the copies added that offloading needs.
  Hooks with_offload(const Hooks& hooks, size_t buffer, size_t chunk);

  TrainerContext context_;
  Stream& stream_;
  size_t micro_batch_size_;
  const Layout& layout_;
  std::span<const Layout> chunks_;
  Mixture* mixture_;
  ConstTensorView parameters_;
  TensorView gradients_;
  ModelWorkspace workspace_;
  std::unique_ptr<Dropped> dropped_;            // what blocks drop, in turn
  std::unique_ptr<ActivationOffload> offload_;  // null: activations wait on the device
  std::deque<Model> models_;                    // by chunk
  std::vector<std::vector<size_t>> units_;      // by chunk and its unit: the stage's unit
  std::vector<std::unique_ptr<Buffer>> buffers_;
  LossSum losses_;
};

}  // namespace ladder
