// Measures what this machine can do. Benchmarks compare kernels with it; nothing else uses it.
#pragma once

#include <functional>

#include "kernels/runtime/stream.h"

namespace ladder {

enum class Limit { fp32, tf32, fp64, bf16, bandwidth };

// Returns FLOP/s (a multiply-add is two), or bytes read and written per second.
//
// On the CPU it uses all threads of set_num_threads, and times multiply-adds of the widest vectors,
// or a[i] += b[i] over arrays much larger than the caches. On a GPU it times a large product by
// cuBLAS, or a copy of memory much larger than its cache. REQUIRES: tf32 and bf16 only on a GPU.
double measure(Limit limit, Stream& stream);

// Returns the seconds that `count` calls take, one after the other. The clock is that of the
// stream's device: on a GPU the host only keeps the queue full.
double seconds_of(Stream& stream, int count, const std::function<void()>& call);

}  // namespace ladder
