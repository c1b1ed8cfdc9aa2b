// Naive attention: the formula, with the whole matrix of scores in memory. Three kernels follow
// each other: scores, softmax, output.
#include <limits>

#include "kernels/cuda/versions/attention.h"
#include "kernels/cuda/warp.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kWarps = 8, kThreads = kWarps * kWarpSize;

// scores[head][i][j] = scale q_i k_j for keys j <= i: a thread computes one. The threads of a warp
// have one query and 32 keys, which lie far apart in memory.
__global__ void naive_scores_kernel(AttentionCall call, float* scores) {
  const unsigned query = blockIdx.y * kWarps + warp_index();
  const unsigned key = blockIdx.x * kWarpSize + lane_index(), head = blockIdx.z;
  const size_t tokens = call.heads.tokens;
  if (query >= tokens || key > query) return;
  const auto queries = call.heads.in_qkv(call.qkv, head, 0);
  const auto keys = call.heads.in_qkv(call.qkv, head, 1);
  float sum = 0;
  for (unsigned d = 0; d < call.heads.size; ++d) {
    const float q = queries.first[query * queries.stride + d];
    sum = std::fma(q, float{keys.first[key * keys.stride + d]}, sum);
  }
  scores[(head * tokens + query) * tokens + key] = call.scale * sum;
}

// Turns a query's scores into probabilities, and keeps the logarithm of their sum: a warp for each
// row of the matrix.
__global__ void naive_softmax_kernel(AttentionCall call, float* scores) {
  const size_t tokens = call.heads.tokens, row = size_t{blockIdx.x} * kWarps + warp_index();
  if (row >= call.all_heads * tokens) return;
  const unsigned keys = static_cast<unsigned>(row % tokens) + 1;
  float* const score = scores + row * tokens;
  float largest = std::numeric_limits<float>::lowest(), total = 0;
  for (unsigned j = lane_index(); j < keys; j += kWarpSize) largest = std::fmax(largest, score[j]);
  largest = warp_max(largest);
  for (unsigned j = lane_index(); j < keys; j += kWarpSize) total += std::exp(score[j] - largest);
  total = warp_sum(total);
  for (unsigned j = lane_index(); j < keys; j += kWarpSize) {
    score[j] = std::exp(score[j] - largest) / total;
  }
  if (lane_index() == 0) call.logsumexp[row] = largest + std::log(total);
}

// out[i][d] = sum over j of p[i][j] v[j][d]: a thread computes one.
__global__ void naive_output_kernel(AttentionCall call, const float* probabilities) {
  const size_t tokens = call.heads.tokens, size = call.heads.size, index = thread_index();
  const size_t row = index / size, d = index % size;
  if (row >= call.all_heads * tokens) return;
  const size_t head = row / tokens, query = row % tokens;
  const auto values = call.heads.in_qkv(call.qkv, head, 2);
  float sum = 0;
  for (size_t j = 0; j <= query; ++j) {
    sum =
        std::fma(probabilities[row * tokens + j], float{values.first[j * values.stride + d]}, sum);
  }
  const auto to = call.heads.in_out(call.out, head);
  to.first[query * to.stride + d] = bfloat16(sum);
}

}  // namespace

void attention_naive(cudaStream_t stream, const AttentionCall& call, float* scores) {
  const unsigned tokens = static_cast<unsigned>(call.heads.tokens), heads = call.all_heads;
  const size_t rows = size_t{heads} * tokens;
  const dim3 grid((tokens + kWarpSize - 1) / kWarpSize, (tokens + kWarps - 1) / kWarps, heads);
  launch<naive_scores_kernel>(stream, {grid, dim3(kThreads)}, call, scores);
  launch<naive_softmax_kernel>(stream, threads_for(rows * kWarpSize, kThreads), call, scores);
  launch<naive_output_kernel>(stream, threads_for(rows * call.heads.size), call,
                              static_cast<const float*>(scores));
}

}  // namespace ladder::cuda
