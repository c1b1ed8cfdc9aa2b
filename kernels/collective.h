// The arithmetic of collectives on the CPU: sums over ranks, in rank order.
//
// Buffers are host memory. Each may belong to another rank and be mapped into this process. These
// functions run in the calling thread and open no parallel region, because all ranks run them at
// the same time, and communicators call them from worker threads.
#pragma once

#include <span>

#include "kernels/runtime/tensor.h"

namespace ladder {

enum class Reduction { sum, max };

// Sets buffers[r][i] = ((buffers[0][i] + buffers[1][i]) + ...) for every r, or to the maximum. bf16
// and fp16 are summed in fp32 and rounded once, at the end. REQUIRES: the buffers have the same
// dtype and number of elements, and do not overlap.
void reduce_to_all(std::span<const TensorView> buffers, Reduction reduction);

// Sets out[i] = ((buffers[0][i] + buffers[1][i]) + ...), or to the maximum. `out` may be one of the
// buffers.
void reduce_to_one(TensorView out, std::span<const ConstTensorView> buffers, Reduction reduction);

// Sets out[i] = in[i]. Large copies bypass the cache on x86-64. REQUIRES: the same number of bytes,
// and no overlap.
void copy_in_thread(TensorView out, ConstTensorView in);

}  // namespace ladder
