// What this machine can do, measured now: the scale for benchmarks. For benchmarks only.
#pragma once

namespace ladder {

// fp32 multiply-adds at the widest vectors of this CPU, all threads of set_num_threads together:
// FLOP/s, two for each multiply-add.
double measure_fma_rate();

// a[i] += b[i] over arrays much larger than the caches: bytes read and written, per second.
double measure_bandwidth();

}  // namespace ladder
