#include "common/train/needed_memory.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ladder {
namespace {

// Returns the `own` of the rank whose total is largest, and that rank.
std::pair<MemoryUse, size_t> largest(const MemoryUse& own, const AllGather& all_gather) {
  const size_t width = own.bytes.size();
  const std::vector<uint64_t> rows = all_gather({own.bytes.begin(), own.bytes.end()});
  std::pair<MemoryUse, size_t> found;
  for (size_t rank = 0; rank < rows.size() / width; ++rank) {
    MemoryUse use;
    std::copy_n(rows.data() + rank * width, width, use.bytes.data());
    if (use.total() > found.first.total()) found = {use, rank};
  }
  return found;
}

}  // namespace

NeededMemory largest_memory(const Prediction& prediction, const AllGather& all_gather) {
  NeededMemory needed;
  std::tie(needed.device, needed.device_rank) = largest(prediction.device, all_gather);
  std::tie(needed.host, needed.host_rank) = largest(prediction.host, all_gather);
  return needed;
}

}  // namespace ladder
