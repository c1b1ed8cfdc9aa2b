// Tiled attention: online softmax over tiles of keys, so the matrix of scores never exists
// (../README.md computes an example). A thread has one query, with its output in registers; the
// threads of a thread block share the tiles of keys and values.
#include <limits>

#include "kernels/cuda/attention_mma_tile.h"
#include "kernels/cuda/versions/attention.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kQueries = 128, kKeys = 32;  // of a tile; a thread for each query

// kWidth is at least HS; elements after the last one of a head are 0.
template <unsigned kWidth>
__global__ void __launch_bounds__(kQueries, 2) tiled_attention_kernel(AttentionCall call) {
  alignas(16) __shared__ float keys[kKeys][kWidth], values[kKeys][kWidth];
  __shared__ float scores[kKeys][kQueries];  // a column for each thread, which no other one reads
  const size_t size = call.heads.size;
  const unsigned head = blockIdx.x, tokens = static_cast<unsigned>(call.heads.tokens);
  // The last tiles see the most keys, so they start first.
  const unsigned q0 = (gridDim.y - 1 - blockIdx.y) * kQueries, query = q0 + threadIdx.x;
  const auto from = call.heads.in_qkv(call.qkv, head, 0);
  const auto from_keys = call.heads.in_qkv(call.qkv, head, 1);
  const auto from_values = call.heads.in_qkv(call.qkv, head, 2);
  float q[kWidth], sums[kWidth] = {};
  for (unsigned d = 0; d < kWidth; ++d) {
    q[d] = query < tokens && d < size ? call.scale * from.first[query * from.stride + d] : 0;
  }
  float maximum = std::numeric_limits<float>::lowest(), total = 0;
  const unsigned end = q0 + kQueries < tokens ? q0 + kQueries : tokens;
  for (unsigned k0 = 0; k0 < end; k0 += kKeys) {
    __syncthreads();  // the tiles have been read
    for (unsigned i = threadIdx.x; i < kKeys * kWidth; i += kQueries) {
      const unsigned t = i / kWidth, d = i % kWidth;
      const bool exists = k0 + t < tokens && d < size;
      keys[t][d] = exists ? float{from_keys.first[(k0 + t) * from_keys.stride + d]} : 0;
      values[t][d] = exists ? float{from_values.first[(k0 + t) * from_values.stride + d]} : 0;
    }
    __syncthreads();
    float largest = maximum;
    for (unsigned j = 0; j < kKeys; ++j) {
      float score = 0;
      for (unsigned d = 0; d < kWidth; ++d) score = std::fma(q[d], keys[j][d], score);
      if (k0 + j > query) score = -std::numeric_limits<float>::infinity();
      scores[j][threadIdx.x] = score;
      largest = std::fmax(largest, score);
    }
    // What was summed up so far was relative to an earlier maximum.
    const float correction = std::exp(maximum - largest);
    maximum = largest;
    total *= correction;
    for (float& sum : sums) sum *= correction;
    for (unsigned j = 0; j < kKeys; ++j) {
      const float weight = std::exp(scores[j][threadIdx.x] - largest);
      total += weight;
      for (unsigned d = 0; d < kWidth; ++d) sums[d] = std::fma(weight, values[j][d], sums[d]);
    }
  }
  if (query >= tokens) return;
  call.logsumexp[size_t{head} * tokens + query] = maximum + std::log(total);
  const float inverse = 1 / total;
  const auto to = call.heads.in_out(call.out, head);
  for (unsigned d = 0; d < kWidth; ++d) {
    if (d < size) to.first[query * to.stride + d] = bfloat16(sums[d] * inverse);
  }
}

}  // namespace

void attention_tiled(cudaStream_t stream, const AttentionCall& call) {
  const unsigned tokens = static_cast<unsigned>(call.heads.tokens);
  const LaunchShape shape = {dim3(call.all_heads, (tokens + kQueries - 1) / kQueries),
                             dim3(kQueries)};
  if (call.heads.size <= 32) return launch<tiled_attention_kernel<32>>(stream, shape, call);
  launch<tiled_attention_kernel<64>>(stream, shape, call);
}

}  // namespace ladder::cuda
