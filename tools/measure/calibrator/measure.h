// Measures kernels and collectives by themselves, on one rank or on several at the same time.
#pragma once

#include "common/cluster/cluster.h"
#include "common/comm/communicator.h"
#include "kernels/runtime/cost.h"
#include "tools/measure/calibrator/buffers.h"
#include "tools/measure/calibrator/kernel_case.h"

namespace ladder {

// Returns a product of two square matrices.
KernelCall square_product(size_t extent, DType dtype);

// All functions are collective over `ranks`: each rank measures at the same time, and all get the
// same result.
class Measurer {
 public:
  // A step moves `step_bytes` of memory; buffers.h says what for. `registered` may be null.
  Measurer(Communicator& ranks, MemorySource* registered, size_t step_bytes);

  // Returns the seconds of a call: the mean over ranks of each one's median.
  double kernel_seconds(const KernelCall& call);
  // Returns the seconds of a collective of so many bytes of fp32: the full vector.
  double collective_seconds(Collective collective, size_t bytes);
  // Returns by how much longer products take while such a collective runs in the background, but at
  // least the time of the collective by itself. On shared cores that is more: the threads of all
  // ranks that communicate must get a core at the same time, from those that compute.
  double background_seconds(Collective collective, size_t bytes);
  // Returns the seconds of a message from rank 0 to rank 1.
  double message_seconds(size_t bytes);

 private:
  double mean_of(double own);
  double largest_of(double own);
  Work start(Collective collective, size_t bytes, bool background);
  // Calls `call` until there are enough times, and returns its seconds.
  double seconds_of(const std::function<void()>& call);

  Communicator& ranks_;
  Stream stream_{DeviceType::cpu};
  size_t step_bytes_;
  Buffers buffers_;
  Memory memory_{DeviceType::cpu, "calibration", 0};
  Tensor shared_;  // what collectives work on
  size_t place_ = 0;
};

}  // namespace ladder
