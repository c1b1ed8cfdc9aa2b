// What this machine can do, measured now: the scale for benchmarks. For benchmarks only.
#pragma once

#include <functional>

#include "kernels/runtime/stream.h"

namespace ladder {

enum class Limit { fp32, tf32, fp64, bandwidth };

// FLOP/s, a multiply-add being two, or bytes read and written per second.
//
// On the CPU with all threads of set_num_threads: multiply-adds at its widest vectors, and
// a[i] += b[i] over arrays much larger than the caches. On a GPU a large product by cuBLAS, and a
// copy of memory much larger than its cache.
// REQUIRES: tf32 on a GPU only.
double measure(Limit limit, Stream& stream);

// Seconds for `count` calls one after the other, by the clock of the stream's device: the host's on
// the CPU, the GPU's own elsewhere, where the host merely keeps the queue full.
double seconds_of(Stream& stream, int count, const std::function<void()>& call);

}  // namespace ladder
