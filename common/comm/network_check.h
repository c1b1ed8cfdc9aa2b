// How fast every two ranks can send to each other, to find the slow link of a network.
#pragma once

#include <cstddef>
#include <vector>

#include "common/comm/job.h"

namespace ladder {

// What one rank sends to another, with nothing else under way.
struct Link {
  size_t from = 0, to = 0;
  double bytes_per_second = 0;
};

// Times `bytes` bytes from every rank to every other one, one pair after the other and each
// direction alone: until the receiver's answer of a few bytes is back, the best of three tries. All
// ranks get all links, in the order of `from`, then `to`. Collective. REQUIRES: the job has
// connected; a communicator for host memory; bytes > 0.
std::vector<Link> measure_links(Job& job, size_t bytes);

}  // namespace ladder
