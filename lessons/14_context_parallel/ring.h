// Ring attention: keys and values travel around a ring of ranks, and each rank computes with those
// that it has at the moment. [Liu23]
#pragma once

#include <array>

#include "common/comm/communicator.h"
#include "common/model/context_parallel.h"
#include "common/train/trainer/trainer.h"
#include "lessons/14_context_parallel/slices.h"

namespace ladder {

// RingAttention is attention over sequences whose tokens a group of ranks shares. Rank r sends to
// rank r + 1 and receives from rank r - 1 (the last rank's next is rank 0). At round s it has the
// keys and values of rank r - s, and passes them on while it computes with them. After N rounds it
// has seen those of all ranks.
class RingAttention {
 public:
  // Allocates workspace for micro-batches of config.micro_batch_size sequences, and for the heads
  // of this rank if tensor-parallel ranks share them. `ring` and what the context refers to must
  // outlive this object. REQUIRES: the plan is for the ranks of `ring`, and there are at least two.
  RingAttention(const TrainerContext& context, SlicePlan plan, Communicator& ring);

  // Returns forward() and backward() for the model. This object must outlive them.
  ContextParallel functions();

 private:
  struct Exchange {
    Work send, recv;
  };

  // The arguments are those of attention.h, for this rank's tokens. The results over the keys of
  // each rank are merged by their logsumexp, in the accumulation dtype.
  void forward(Stream& stream, TensorView out, TensorView logsumexp, ConstTensorView qkv);
  // The gradients of keys and values travel with them and return to their owner after N rounds,
  // complete.
  void backward(Stream& stream, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv);

  // Returns the rank whose keys are here at a round.
  size_t owner_at(size_t round) const;
  // Begins to send what is here at a round, and to receive what will be here at the next one.
  Exchange pass_on(Stream& stream, const std::array<Tensor, 2>& buffers, size_t round);
  void wait(Stream& stream, Exchange& exchange);
  // Returns the place of keys and values, or of their gradients, at a round: (B, Tk, 2 C), with the
  // number of tokens of the owner.
  TensorView at(const std::array<Tensor, 2>& buffers, size_t round) const;
  TensorView of_owner(const Tensor& buffer, size_t round) const;
  // Copies this rank's keys and values from qkv to where they are at round 0.
  void begin_ring(Stream& stream, ConstTensorView qkv);

  SlicePlan plan_;
  Communicator& ring_;
  size_t batch_, queries_, keys_;  // the columns of q, and those of k
  std::array<Tensor, 2> kv_;       // what is here, and what is on its way
  std::array<Tensor, 2> dkv_;      // the gradients that travel, in the accumulation dtype
  Tensor dkv_of_round_;            // what this rank adds to them
  // The results over one rank's keys, and in backward the gradient of the queries.
  Tensor partial_, partial_logsumexp_;
  Tensor sum_;  // the output in the accumulation dtype; empty if that is the compute dtype
};

}  // namespace ladder
