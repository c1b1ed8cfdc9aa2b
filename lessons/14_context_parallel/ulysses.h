// Ulysses: an all_to_all gives each rank all tokens of some heads, and after attention another one
// gives the tokens back. [Jacobs23]
#pragma once

#include "common/comm/communicator.h"
#include "common/model/context_parallel.h"
#include "common/train/trainer/trainer.h"
#include "lessons/14_context_parallel/slices.h"

namespace ladder {

// UlyssesAttention is attention over sequences whose tokens N ranks share. Outside attention a rank
// has t tokens of a sequence, with all heads: W columns. Inside it has all T tokens, with an N-th
// of the heads of q, of k and of v: w columns. So the kernels of attention.h do the rest.
class UlyssesAttention {
 public:
  // How many heads q has, how many k and v have, and how many columns a head has.
  struct Heads {
    size_t num_queries, num_keys, head_size;
  };
  // Allocates workspace for micro-batches of config.micro_batch_size sequences and attention with
  // these heads. `ranks` and what the context refers to must outlive this object. REQUIRES: the
  // plan is for the ranks of `ranks`, and their number divides both numbers of heads.
  UlyssesAttention(const TrainerContext& context, SlicePlan plan, Communicator& ranks,
                   const Heads& heads);

  // Returns forward() and backward() for the model. This object must outlive them.
  ContextParallel functions();

 private:
  // The arguments are as in attention.h, for this rank's tokens. Forward replaces qkv and logsumexp
  // by what backward needs: all tokens of this rank's heads. They take as much memory as before,
  // and qkv need not be sent again.
  void forward(Stream& stream, TensorView out, TensorView logsumexp, TensorView qkv,
               AttentionMask mask);
  void backward(Stream& stream, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv,
                AttentionMask mask);

  // Exchange this rank's tokens with all heads (B, t, W) for all tokens with this rank's heads (B,
  // T, w), or the reverse: of q, k and v, or of the output. Both may lie in the same place.
  void to_heads(Stream& stream, TensorView of_heads, ConstTensorView of_tokens);
  void to_tokens(Stream& stream, TensorView of_tokens, ConstTensorView of_heads);
  // Calls body(message, first, rows, at, count) for each rank and each of q, k and v: columns
  // [first, first + count) of its message are [at, at + count) of `rows`, this rank's tokens.
  template <class View, class Body>
  void for_messages(TensorView messages, View of_tokens, Body body) const;
  // Calls body(first, part, at, count) for every slice of every rank: columns [first, first +
  // count) of `of_heads` are columns [at, at + count) of the rank's part of `parts`, if both have a
  // row for each sequence. A token has `width` columns there.
  template <class Body>
  void for_slices(TensorView parts, size_t width, Body body) const;

  SlicePlan plan_;
  Communicator& ranks_;
  size_t batch_, queries_, keys_;  // the columns of all heads of q, and of k
  // Of all tokens: (B, T, w) of q, k and v, (B, T, w) of the output, and (B, NH / N, T).
  Shape qkv_shape_, out_shape_, rows_shape_;
  PairCounts counts_;       // the tokens that to_heads() moves
  Tensor sent_, received_;  // B t W elements each, for the largest t of a rank
  Tensor out_, dout_;       // of all tokens
};

}  // namespace ladder
