// A transformer block, forward and backward, as a walk over its sublayers (sublayer.h). For GPT-2:
//   middle = in + attention(layernorm_1(in) Wa + ba) Wp + bp
//   out    = middle + gelu(layernorm_2(middle) Wf + bf) Wm + bm
// and for the Llama family, whose q and k are turned by their positions before attention, and may
// be normed before that, head by head:
//   middle = in + attention(turn(norm_heads(rmsnorm_1(in) Wa))) Wp
//   out    = middle + swiglu(rmsnorm_2(middle) Wf) Wm
// A micro-batch has B sequences of T tokens, which are R = B T rows of C elements (the hidden
// size). Attention has NH heads. Each of N tensor-parallel ranks has NH / N of the heads: C / N
// columns of each of q, k, v and of the attention's output. Of the F columns of the inner layer it
// has F / N.
// The residual stream has n rows on this rank: all R, or R / N of them if N ranks split it by
// tokens (sequence parallelism).
#pragma once

#include <algorithm>
#include <span>

#include "common/model/context_parallel.h"
#include "common/model/layout.h"
#include "common/model/tensor_parallel.h"

namespace ladder {

// The activations of a block: those of its sublayers, one after the other.
// block_activation_specs() in activations.h has their shapes. What a block lacks is empty.
using BlockActivations = std::array<TensorView, kNumSublayers * SublayerActivation::kCount>;
// Returns those of one sublayer, by SublayerActivation::Index.
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

// Returns the columns of BlockWorkspace::inner that a sublayer needs on one of `tensor_size` ranks:
// those of the gradient of the first linear layer's output, or, of a core whose input is twice as
// wide as its output, those of the gradient of its output.
inline size_t inner_columns(const Sublayer& sublayer, size_t tensor_size) {
  return sublayer.core == Core::swiglu ? sublayer.second.in / tensor_size
                                       : split_outputs(sublayer.first.parts, tensor_size);
}

// Returns the most columns that adapters of one linear layer need together (adapters.h).
inline size_t widest_adapters(const Sublayer& sublayer) {
  return std::max(sublayer.first.adapter_columns(), sublayer.second.adapter_columns());
}

// Computes the activations: those of the given operations, as far as the block has them itself.
// What these read of the other operations must be there. The same `in` gives the same bits each
// time. Asynchronous on the stream.
void block_forward(Stream& stream, const BlockCall& block,
                   BlockOperations operations = BlockOperations().set());

// What of backward to run: all of it, or one of its halves.
enum class BackwardHalf { both, input, weight };

// Turns d_residual (n, C) from the gradient with respect to the block's output into that with
// respect to its input, and adds the parameters' gradients to those of `gradients` that are not
// empty. The activations and `in`
// are those of forward. The block's own output is not read. Where a sublayer has experts,
// workspace.hidden must be the gradient with respect to its norm's output (R, C). Asynchronous on
// the stream.
//
// In two halves it does the same with the same bits. The half `input` turns d_residual into the
// gradient with respect to the block's input, which the block before waits for, and adds the
// gradients of the norms' parameters and of adapters. The half `weight`, which may run any time
// later, adds those of the linear layers' weights and biases; it reads neither weights, d_residual
// nor `in`. For it the first half writes the gradients of the linear layers' outputs over
// activations that backward has used up: `first` and `out` of each sublayer. So the halves need no
// memory of their own, but a micro-batch's activations stay in use until the second half. If ranks
// split the rows of the residual stream, both halves gather the rows of the two gradients that are
// split, since there is no room to keep them. [Qi23] REQUIRES, for halves: no experts.
void block_backward(Stream& stream, const BlockCall& block, TensorView d_residual,
                    const UnitView& gradients, BackwardHalf half = BackwardHalf::both);

}  // namespace ladder
