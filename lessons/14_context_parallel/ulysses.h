// Ulysses: an all_to_all gives each rank all tokens of some heads, and after attention another one
// gives the tokens back. [Jacobs23]
#pragma once

#include "common/comm/communicator.h"
#include "common/model/context_parallel.h"
#include "common/train/trainer/trainer.h"
#include "lessons/14_context_parallel/slices.h"

namespace ladder {

// UlyssesAttention is attention over sequences whose tokens N ranks share. Outside attention a rank
// has all heads of its t tokens of a sequence. Inside it has all T tokens of its NH / N heads:
// c = C / N columns of each of q, k and v. So attention itself is that of attention.h.
class UlyssesAttention {
 public:
  // Allocates workspace for micro-batches of config.micro_batch_size sequences and attention of
  // `num_heads` heads with `hidden` columns (C) in all. `ranks` and what the context refers to must
  // outlive this object. REQUIRES: the plan is for the ranks of `ranks`, and their number divides
  // num_heads.
  UlyssesAttention(const TrainerContext& context, SlicePlan plan, Communicator& ranks,
                   size_t hidden, size_t num_heads);

  // Returns forward() and backward() for the model. This object must outlive them.
  ContextParallel functions();

 private:
  // The arguments are those of attention.h, for this rank's tokens. Forward leaves qkv and
  // logsumexp of all tokens and this rank's heads in their place, for backward: they need no more
  // memory than before, and qkv need not be sent again.
  void forward(Stream& stream, TensorView out, TensorView logsumexp, TensorView qkv);
  void backward(Stream& stream, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv);

  // Exchange all heads of this rank's tokens (B, t, k C) for all tokens of this rank's heads
  // (B, T, k c), or the reverse. Here k is 3 for q, k and v, and 1 for attention's output. The two
  // may lie in the same place.
  void to_heads(Stream& stream, TensorView of_heads, ConstTensorView of_tokens);
  void to_tokens(Stream& stream, TensorView of_tokens, ConstTensorView of_heads);
  // Calls body(first, part, at, count) for every slice of every rank: columns [first, first +
  // count) of `of_heads` are columns [at, at + count) of the rank's part of `parts`, if both have a
  // row for each sequence. A token has `width` columns there.
  template <class Body>
  void for_slices(TensorView parts, size_t width, Body body) const;

  SlicePlan plan_;
  Communicator& ranks_;
  size_t batch_, hidden_;
  Shape qkv_shape_, out_shape_, rows_shape_;  // of all tokens: (B, T, 3 c), (B, T, c), (B, NH/N, T)
  PairCounts counts_;                         // the elements that to_heads() moves if k is 1
  Tensor sent_, received_;                    // B t 3 C elements each, for the largest t of a rank
  Tensor out_, dout_;                         // (B, T, c)
};

}  // namespace ladder
