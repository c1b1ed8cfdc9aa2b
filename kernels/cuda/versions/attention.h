// What the first versions of attention have in common. README.md tells in which order to read them.
#pragma once

#include "kernels/cuda/attention_heads.h"
#include "kernels/cuda/launch.h"
#include "kernels/runtime/low_precision.h"

namespace ladder::cuda {

// Attention's forward (kernels/attention.h) in bf16, of B sequences. All but the exponentials'
// factors are as there: nothing is rounded to bf16 but the output.
struct AttentionCall {
  bfloat16* out;        // (B, T, C)
  float* logsumexp;     // (B, NH, T)
  const bfloat16* qkv;  // (B, T, 3 C)
  Heads heads;
  unsigned all_heads;  // B NH
  float scale;         // 1 / sqrt(HS)
};

// The versions, each in its file, asynchronous on the stream. `scores` (B, NH, T, T) is a
// workspace. REQUIRES of attention_tiled: HS <= 64.
void attention_naive(cudaStream_t stream, const AttentionCall& call, float* scores);
void attention_tiled(cudaStream_t stream, const AttentionCall& call);

}  // namespace ladder::cuda
