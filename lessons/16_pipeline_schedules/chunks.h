// The chunks of the model that a stage holds: their memory, and their forward and backward.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/model/gpt2.h"
#include "common/train/micro_batch.h"
#include "common/train/model_runner.h"
#include "common/train/model_state.h"

namespace ladder {

class ActivationOffload;

// The layouts of a stage: of all that it holds, and of each chunk, by its number.
struct ChunkLayouts {
  Layout stage;
  std::vector<Layout> chunks;
};

// The directions in which a stage sends gradients.
struct GradientDirections {
  bool to_earlier = false, to_later = false;
};

// ChunkRunner runs forward and backward of a stage's chunks on micro-batches. Parameters and
// gradients lie in the stage's buffers, where chunks that share a unit find the same one.
//
// A slot is memory for the activations of one micro-batch in one chunk, and for its tokens. It is
// as large as the largest chunk needs, and any chunk may use it: so a stage needs as many slots as
// there are micro-batches in flight, whichever chunks they are in. In the same way chunks share the
// memory of what their blocks drop (--recompute).
//
// All calls are asynchronous on the stream, but load() and total_loss() also wait for it.
class ChunkRunner {
 public:
  // Makes an outgoing buffer for each direction of `sends`. What is given must outlive this object.
  // REQUIRES: there is one chunk if activations wait on the host.
  ChunkRunner(const TrainerContext& context, const ChunkLayouts& layouts, ModelState& state,
              const GradientDirections& sends, const ModelRunner::Options& options);
  ~ChunkRunner();

  // Returns whether the chunk reads tokens, their positions or targets, so that it has to load().
  bool needs_tokens(size_t chunk) const;
  bool has_classifier(size_t chunk) const;
  // Returns the chunk's units, by the numbers that they have on the stage.
  const std::vector<size_t>& units(size_t chunk) const { return units_[chunk]; }
  // Loads sequences [first_sequence, first_sequence + micro-batch size) of the split's global batch
  // number `step` into a slot.
  void load(Split split, int64_t step, size_t first_sequence, size_t slot);
  // Runs forward from the tokens, or from input(), to output().
  void forward(size_t chunk, size_t slot);
  // Runs the classifier: adds the losses to the total and begins the gradients, which are those of
  // `token_weight` times the sum of the losses of all tokens.
  void classify(size_t chunk, size_t slot, double token_weight);
  // Adds the micro-batch's gradients, or those of the half. It calls `done`, unless it is empty,
  // for each unit of the stage to whose gradient this micro-batch adds nothing more in this chunk.
  void backward(size_t chunk, size_t slot, BackwardHalf half,
                const std::function<void(size_t unit)>& done = {});
  // Runs the classifier without gradients: adds the losses to the total.
  void evaluate(size_t chunk, size_t slot);
  // Returns the sum of the losses of all tokens since the last call. Synchronizes the stream.
  double total_loss() { return losses_.total(); }

  // All are (n, C), for the rows (tokens) of the residual stream that this rank has
  // (ModelPart::residual): the residual stream where a chunk begins and where it ends, and a
  // gradient, which backward turns from that of output() into that of input(). From forward of the
  // next part on, output() may be overwritten.
  TensorView input(size_t chunk, size_t slot) const { return activations(chunk, slot).input(); }
  TensorView output(size_t chunk, size_t slot) const { return activations(chunk, slot).output(); }
  TensorView d_residual() const { return workspace_.d_residual(activations(0, 0)); }
  // Returns the buffer for gradients that are being sent in one direction.
  TensorView outgoing(bool to_later) const { return outgoing_[to_later ? 1 : 0]; }

 private:
  struct Slot;
  struct Dropped;

  const Activations& activations(size_t chunk, size_t slot) const;
  // Returns the hooks that find the chunk's units in the stage's buffers.
  Hooks hooks_of(size_t chunk) const;
  // Returns the hooks, with the copies of activations added that wait on the host.
  Hooks hooks_with_copies(Hooks hooks, size_t chunk, size_t slot);

  Stream& stream_;
  const ChunkLayouts& layouts_;
  ModelState& state_;
  ModelWorkspace workspace_;
  Tensor outgoing_[2];
  std::unique_ptr<Dropped> dropped_;
  std::unique_ptr<ActivationOffload> offload_;  // null: activations wait on the device
  std::deque<Gpt2> models_;                     // by chunk
  std::vector<std::vector<size_t>> units_;      // by chunk and its unit: the stage's unit
  std::vector<std::unique_ptr<Slot>> slots_;
  LossSum losses_;
};

}  // namespace ladder
