// The simplest model of what communication costs, and how it is found from measurements.
#pragma once

#include <cstddef>
#include <vector>

namespace ladder {

// Moving n bytes takes alpha + beta n seconds: alpha is the latency, 1 / beta the bandwidth.
// [Hockney94]
struct LinearCost {
  double alpha = 0;  // seconds
  double beta = 0;   // seconds for a byte
  double seconds(size_t bytes) const { return alpha + beta * static_cast<double>(bytes); }
};

// One measurement: how long a transfer of `bytes` took.
struct CostSample {
  size_t bytes = 0;
  double seconds = 0;
};

// Returns the cost with the smallest sum of squared relative errors, (model / measured - 1)^2. So
// an error of 10 % counts the same for 1 KiB as for 16 MiB. If the fit makes alpha or beta
// negative, which no network has, that one becomes 0 and the other is fitted alone. REQUIRES: at
// least two samples, with different sizes and positive times.
LinearCost fit_linear_cost(const std::vector<CostSample>& samples);

}  // namespace ladder
