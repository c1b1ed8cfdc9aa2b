// Causal multi-head attention without a T x T matrix in memory. Letters and rules:
// kernels/matmul.h.
#pragma once

#include "kernels/runtime/stream.h"

namespace ladder {

// out = softmax(q k^T / sqrt(HS) + causal mask) v, per sequence and head. [Vaswani17, 3.2.1]
// Keys are taken in blocks with a running maximum and sum (online softmax [Milakov18, Dao22]).
//   qkv (B, T, 3 C) in: per token all of q, then k, then v; head h is columns [h HS, (h+1) HS) of
//   each. C = NH HS.
//   out (B, T, C) out
//   logsumexp (B, NH, T) a, out, saved for backward: the log of each row's sum of exponentials
// NH is logsumexp's middle extent. REQUIRES: T >= 1, NH divides C.
void attention_forward(Stream& stream, TensorView out, TensorView logsumexp, ConstTensorView qkv);

// dqkv (B, T, 3 C) = the gradient with respect to qkv (overwritten).
// Probabilities are computed again from q, k and logsumexp, block by block. [Dao22, algorithm 4]
//   dout, out (B, T, C), logsumexp (B, NH, T), qkv (B, T, 3 C) in
//   row_dot (B, NH, T) a, workspace: receives sum over the head of dout * out
void attention_backward(Stream& stream, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                        ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv);

}  // namespace ladder
