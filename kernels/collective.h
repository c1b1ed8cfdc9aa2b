// The arithmetic of collectives on the CPU: sums over ranks, in rank order.
//
// Buffers are host memory; one may belong to each rank, mapped into this process. These functions
// run in the calling thread alone and open no parallel region: every rank runs them at once, and
// communicators call them from their worker threads.
#pragma once

#include <span>

#include "kernels/runtime/tensor.h"

namespace ladder {

enum class Reduction { sum, max };

// buffers[r][i] = ((buffers[0][i] + buffers[1][i]) + ...) for every r, or the maximum. bf16 and
// fp16 are summed in fp32 and rounded once, at the end. REQUIRES: same dtype and number of
// elements; distinct memory.
void reduce_to_all(std::span<const TensorView> buffers, Reduction reduction);

// out[i] = ((buffers[0][i] + buffers[1][i]) + ...), or the maximum. out may be one of the buffers.
void reduce_to_one(TensorView out, std::span<const ConstTensorView> buffers, Reduction reduction);

// out[i] = in[i]. Large ones bypass the cache. REQUIRES: no overlap, the same number of bytes.
void copy_in_thread(TensorView out, ConstTensorView in);

}  // namespace ladder
