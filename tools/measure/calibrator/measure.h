// Measures kernels and collectives by themselves, on one rank or on several at the same time.
#pragma once

#include <functional>
#include <vector>

#include "common/cluster/cluster.h"
#include "common/comm/communicator.h"

namespace ladder {

// All functions are collective over `ranks`: each rank measures at the same time, and all get the
// same result.
class Measurer {
 public:
  // `registered` may be null.
  Measurer(Communicator& ranks, MemorySource* registered);

  // Returns for each of these numbers the mean over the ranks that have it; the others have 0.
  std::vector<double> means_of(const std::vector<double>& own);
  // Return the seconds of a product of two square matrices, and of a fill of so many floats: the
  // mean over ranks of each one's median.
  double product_seconds(size_t extent, DType dtype);
  double fill_seconds(size_t count);
  // Returns the seconds of a collective of so many bytes of fp32: the full vector.
  double collective_seconds(Collective collective, size_t bytes);
  // Returns by how much longer products take while such a collective runs in the background, but at
  // least the time of the collective by itself. On shared cores that is more: the threads of all
  // ranks that communicate must get a core at the same time, from those that compute.
  double background_seconds(Collective collective, size_t bytes);
  // Returns the seconds of a message from rank 0 to rank 1.
  double message_seconds(size_t bytes);

 private:
  double largest_of(double own);
  Work start(Collective collective, size_t bytes, bool background);
  // Calls `call` until there are enough times, and returns its seconds.
  double seconds_of(const std::function<void()>& call);

  Communicator& ranks_;
  Stream stream_{DeviceType::cpu};
  Memory memory_{DeviceType::cpu, "calibration", 0};
  Tensor shared_;  // what collectives work on
  size_t turn_ = 0;
};

}  // namespace ladder
