// Context parallelism as the model sees it: attention, where ranks have different tokens of the
// same sequences.
#pragma once

#include <functional>

#include "kernels/attention.h"

namespace ladder {

// Attention is the only operation of the model in which tokens of a sequence meet. So where ranks
// share sequences, these two functions are all that is different; they also communicate. The
// arguments are those of attention.h, with T for this rank's tokens of each sequence. Unless they
// are set, the functions are those of attention.h themselves: this rank has all tokens.
//
// Between forward and backward qkv and logsumexp are for these functions alone: forward may leave
// anything there that backward needs. The memory of qkv, logsumexp, dqkv and row_dot is that of
// SequenceSlice::most_tokens tokens, also on ranks that have fewer. Where forward runs again for
// --recompute, qkv has been computed again, too.
struct ContextParallel {
  std::function<void(Stream&, TensorView out, TensorView logsumexp, TensorView qkv, AttentionMask)>
      forward = attention_forward;
  std::function<void(Stream&, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                     ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv,
                     AttentionMask)>
      backward = attention_backward;
};

}  // namespace ladder
