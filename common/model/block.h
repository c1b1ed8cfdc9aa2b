// A transformer block, forward and backward, as a walk over its sublayers (sublayer.h). For GPT-2:
//   middle = in + attention(layernorm_1(in) Wa + ba) Wp + bp
//   out    = middle + gelu(layernorm_2(middle) Wf + bf) Wm + bm
// and for the Llama family, whose q and k are turned by their positions before attention, and may
// be normed before that, head by head:
//   middle = in + attention(turn(norm_heads(rmsnorm_1(in) Wa))) Wp
//   out    = middle + swiglu(rmsnorm_2(middle) Wf) Wm
// A micro-batch has B sequences of T tokens, which are R = B T rows of C elements (the hidden
// size). Each of N tensor-parallel ranks has NH / N of the NH heads, which are C / N columns each
// of q, k, v and the attention's output, and F / N of the inner layer's F columns. The residual
// stream has n rows on this rank: all R, or R / N if the ranks split it by tokens (sequence
// parallelism).
#pragma once

#include <algorithm>
#include <span>

#include "common/model/context_parallel.h"
#include "common/model/layout.h"
#include "common/model/tensor_parallel.h"

namespace ladder {

// The activations of a block, sublayer by sublayer; block_activation_specs() in activations.h has
// their shapes. What a block lacks is empty.
using BlockActivations = std::array<TensorView, kNumSublayers * SublayerActivation::kCount>;
// Returns one sublayer's activations, by SublayerActivation::Index.
inline std::span<const TensorView, SublayerActivation::kCount> activations_of(
    const BlockActivations& block, size_t sublayer) {
  return std::span(block)
      .subspan(sublayer * SublayerActivation::kCount)
      .first<SublayerActivation::kCount>();
}

// Memory that all transformer blocks use, one after the other.
struct BlockWorkspace {
  TensorView hidden;    // (R, C) in the compute dtype
  TensorView gathered;  // (R, C) in the compute dtype if the residual stream is split; else empty
  TensorView d_core;    // (R, C / N), or the columns of all heads on this rank; it lies in `hidden`
  TensorView inner;     // (R, W) in the compute dtype; W is the largest inner_columns()
  TensorView row_dot;   // (B, NH / N, T) in the accumulation dtype, for attention_backward
  ConstTensorView rotary_table;  // (positions, head size), if positions are rotary (rotary.h)
  TensorView adapters;           // (2 R widest_adapters()) in the compute dtype; may be empty
};

// A block and what it works with. `in` (n, C) is the residual stream before the block.
struct BlockCall {
  std::span<const Sublayer> sublayers;
  const BlockActivations& activations;
  ConstTensorView in;
  const ConstUnitView& weights;
  const BlockWorkspace& workspace;
  const TensorParallel& tensor;
  const ContextParallel& context;
  ConstTensorView positions;  // of the tokens, for rotary positions; empty: 0, 1, ...
};

// Returns how many columns of BlockWorkspace::inner a sublayer needs on one of `tensor_size` ranks.
// The gradient of the first linear layer's output lies there. Where the core's input is twice as
// wide as its output (swiglu), it is the gradient of the core's output instead.
inline size_t inner_columns(const Sublayer& sublayer, size_t tensor_size) {
  return sublayer.core == Core::swiglu ? sublayer.second.in / tensor_size
                                       : split_outputs(sublayer.first.parts, tensor_size);
}

// Returns the most columns that adapters of one linear layer need together (adapters.h).
inline size_t widest_adapters(const Sublayer& sublayer) {
  return std::max(sublayer.first.adapter_columns(), sublayer.second.adapter_columns());
}

// Computes the activations of the given operations that the block has. Whatever they read of other
// operations must be there. The same `in` gives the same bits. Asynchronous on the stream.
void block_forward(Stream& stream, const BlockCall& block,
                   BlockOperations operations = BlockOperations().set());

// What of backward to run: all of it, or one of its halves.
enum class BackwardHalf { both, input, weight };

// Turns d_residual (n, C), the gradient with respect to the block's output, into the gradient with
// respect to its input. Adds the parameters' gradients to `gradients`, except where a view there is
// empty. The activations and `in` must be as forward left them; the block's own output is not read.
// Where a sublayer has experts, workspace.hidden must be the gradient with respect to its norm's
// output (R, C). Asynchronous on the stream.
//
// Two halves do the same, with the same bits. The half `input` turns d_residual, for which the
// block before waits, and adds the gradients of norms and adapters. The half `weight` may run any
// time later, and adds the gradients of the linear layers' weights and biases. It reads neither
// weights, d_residual nor `in`: the first half leaves the gradients of the linear layers' outputs
// for it, in activations that backward has used up (`first` and `out` of each sublayer). So halves
// need no more memory, but a micro-batch's activations stay in use until the second half. If ranks
// split the rows of the residual stream, both halves gather the rows of the two split gradients,
// since there is no room to keep them. [Qi23] REQUIRES, for halves: no experts.
void block_backward(Stream& stream, const BlockCall& block, TensorView d_residual,
                    const UnitView& gradients, BackwardHalf half = BackwardHalf::both);

}  // namespace ladder
