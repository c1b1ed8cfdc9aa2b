// Attention on tensor cores: FlashAttention-2 [Dao23] for bf16 and fp16. README.md explains it.
// attention_forward.cu and attention_backward.cu, which have the entries, take it for the heads
// that suit it.
#pragma once

#include <cuda_runtime.h>

#include "kernels/attention.h"
#include "kernels/cuda/attention_heads.h"
#include "kernels/cuda/pack.h"

namespace ladder::cuda {

inline constexpr size_t kMaxMmaHeadSize = 128;

// Returns whether the functions below take heads of this size at these addresses: those that are at
// most 128 elements wide and consist of whole packs of 16 bytes.
template <class... T>
bool suits_tensor_cores(size_t head_size, const T*... at) {
  return head_size <= kMaxMmaHeadSize && in_packs(head_size, at...);
}

// Returns what the functions below need to know of the heads.
inline Heads heads_in_qkv(size_t tokens, const AttentionHeads& heads) {
  return {tokens, heads.num_heads, heads.size, heads.num_kv_heads,
          static_cast<unsigned>(heads.group())};
}

// What attention.h documents, asynchronous on the stream. Factors of products are rounded to T: q,
// k, v and dout already are; the probabilities and the gradients of the scores are when they have
// been computed. Sums and statistics are fp32. T is bfloat16 or float16.
template <class T>
void forward_on_tensor_cores(cudaStream_t stream, T* out, float* logsumexp, const T* qkv,
                             size_t batch, const Heads& heads, AttentionMask mask);

// row_dot is an input here.
template <class T>
void backward_on_tensor_cores(cudaStream_t stream, T* dqkv, const float* row_dot, const T* dout,
                              const float* logsumexp, const T* qkv, size_t batch,
                              const Heads& heads, AttentionMask mask);

}  // namespace ladder::cuda
