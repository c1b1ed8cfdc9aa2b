// Measures how fast every two ranks can send to each other, to find the slow link of a network.
#pragma once

#include <cstddef>
#include <vector>

#include "common/comm/job.h"

namespace ladder {

// The bandwidth from one rank to another while nothing else is under way.
struct MeasuredLink {
  size_t from = 0, to = 0;
  double bytes_per_second = 0;
};

// Sends `bytes` bytes from every rank to every other one: one pair after the other, and each
// direction alone. A try lasts until the receiver's answer of a few bytes is back, and the best of
// three tries counts. All ranks get all links, ordered by `from`, then `to`. Collective.
// REQUIRES: the job has connected with a communicator for host memory, and bytes > 0.
std::vector<MeasuredLink> measure_links(Job& job, size_t bytes);

}  // namespace ladder
