// The chunks of the model that a stage holds: their memory, and their forward and backward.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "common/model/gpt2.h"
#include "common/train/micro_batch.h"
#include "common/train/model_state.h"

namespace ladder {

// The layouts of a stage: of all that it holds, and of each chunk, by its number.
struct ChunkLayouts {
  Layout stage;
  std::vector<Layout> chunks;
};

// ChunkRunner runs forward and backward of a stage's chunks on micro-batches. Parameters and
// gradients lie in the stage's buffers, where chunks that share a unit find the same one.
//
// A slot is memory for the activations of one micro-batch in one chunk, and for its tokens. It is
// as large as the largest chunk needs, and any chunk may use it: so a stage needs as many slots as
// there are micro-batches in flight, whichever chunks they are in.
//
// All calls are asynchronous on the stream, but load() and total_loss() also wait for it.
class ChunkRunner {
 public:
  // `sends_to_later` and `sends_to_earlier` say for which gradients there is an outgoing buffer.
  // What is given must outlive this object.
  ChunkRunner(const TrainerContext& context, const ChunkLayouts& layouts, ModelState& state,
              size_t num_slots, bool sends_to_later, bool sends_to_earlier);
  ~ChunkRunner();

  // Returns whether the chunk embeds tokens or compares with targets, so that it has to load().
  bool needs_tokens(size_t chunk) const;
  bool has_classifier(size_t chunk) const;
  // Loads sequences [first_sequence, first_sequence + micro-batch size) of the split's global batch
  // number `step` into a slot.
  void load(Split split, int64_t step, size_t first_sequence, size_t slot);
  // Runs forward from the tokens, or from input(), to output().
  void forward(size_t chunk, size_t slot);
  // Runs the classifier: adds the losses to the total and begins the gradients, which are those of
  // `token_weight` times the sum of the losses of all tokens.
  void classify(size_t chunk, size_t slot, double token_weight);
  // Adds the micro-batch's gradients, or those of the half.
  void backward(size_t chunk, size_t slot, BackwardHalf half);
  // Runs the classifier without gradients: adds the losses to the total.
  void evaluate(size_t chunk, size_t slot);
  // Returns the sum of the losses of all tokens since the last call. Synchronizes the stream.
  double total_loss() { return losses_.total(); }

  // All are (R, C), for R rows (tokens): the residual stream where a chunk begins and where it
  // ends, and a gradient, which backward turns from that of output() into that of input(). From
  // forward of the next part on, output() may be overwritten.
  TensorView input(size_t chunk, size_t slot) const { return activations(chunk, slot).input(); }
  TensorView output(size_t chunk, size_t slot) const { return activations(chunk, slot).output(); }
  TensorView d_residual() const { return workspace_.d_residual(activations(0, 0)); }
  // Returns the buffer for gradients that are being sent in one direction.
  TensorView outgoing(bool to_later) const { return outgoing_[to_later ? 1 : 0]; }

 private:
  struct Slot;

  const Activations& activations(size_t chunk, size_t slot) const;
  // Returns the hooks that find the chunk's units in the stage's buffers.
  Hooks hooks_of(size_t chunk) const;

  Stream& stream_;
  const ChunkLayouts& layouts_;
  ModelState& state_;
  ModelWorkspace workspace_;
  Tensor outgoing_[2];
  std::deque<Gpt2> models_;                 // by chunk
  std::vector<std::vector<size_t>> units_;  // by chunk and its unit: the stage's unit
  std::vector<std::unique_ptr<Slot>> slots_;
  LossSum losses_;
};

}  // namespace ladder
