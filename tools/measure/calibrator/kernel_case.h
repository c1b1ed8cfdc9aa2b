// Calls of kernels, made from what they cost.
#pragma once

#include <functional>

#include "kernels/runtime/cost.h"
#include "tools/measure/calibrator/buffers.h"

namespace ladder {

// A function that calls a kernel once.
using KernelCase = std::function<void(Stream&, Buffers&)>;

// Returns a function that calls the kernel with arguments whose dtypes and extents are found from
// the cost. Arguments are warm or cold (buffers.h) as they are in a training step. `buffers` has
// then counted what a call needs. Throws an Error if the kernel is not known here, or if no
// arguments cost the same.
KernelCase case_of(const KernelCall& call, Buffers& buffers);

}  // namespace ladder
