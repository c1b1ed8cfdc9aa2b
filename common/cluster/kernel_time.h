// How long a kernel takes on a cluster's device, or on its host. No function here allocates.
#pragma once

#include "common/cluster/cluster.h"
#include "kernels/runtime/cost.h"

namespace ladder {

// Returns the seconds that a device is busy with a kernel when nothing else runs on it. The host's
// launch comes before that and is not included.
//
// If the cluster has points measured for this kernel in this dtype, they are interpolated. Else
//   least_kernel_seconds + max(product_flops / (peak * efficiency), other_flops / vector_flops,
//                              bytes / (memory_bandwidth * memory_efficiency))
// [Williams, Waterman, Patterson 2009]; and cluster.program says which kernels run instead of it,
// with as many gaps and with more bytes. `busy_ranks` ranks of the node compute at the same time;
// it matters only on a CPU, whose cores and memory they share.
//
// Throws a UserError if the device has no products in this dtype.
double kernel_seconds(const Cluster& cluster, const KernelCall& call, size_t busy_ranks = 1);

// Returns the part of a device's peak that a product (M, K) (K, N) reaches, without the memory's
// limit. Tiles of the result are shared out between multiprocessors: a device is idle in part while
// the last ones are computed, and where a tile sticks out of the result. Each tile has a begin and
// an end, which weigh more if K is short. A sum may be split in parts where that is faster. On
// tensor cores extents of odd size lose what kernels/matmul.h says.
double product_efficiency(const Cluster& cluster, size_t m, size_t n, size_t k, DType dtype);

// Returns the seconds that a kernel takes on the host, as an offloaded AdamW does, if `busy_ranks`
// ranks of the node have such a kernel running. On a CPU it is kernel_seconds().
double host_kernel_seconds(const Cluster& cluster, const KernelCall& call, size_t busy_ranks = 1);

}  // namespace ladder
