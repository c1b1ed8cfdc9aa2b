#include "common/train/needed_memory.h"

#include <vector>

namespace ladder {
namespace {

// `own` of the rank where its total is largest, and that rank.
std::pair<MemoryUse, size_t> largest(const MemoryUse& own, Communicator& world) {
  // A row for each rank, which the others leave empty. fp64 holds whole numbers below 2^53.
  const size_t width = kCategories.size();
  std::vector<double> rows(world.size() * width);
  for (size_t i = 0; i < width; ++i) {
    rows[world.rank() * width + i] = static_cast<double>(own.bytes[i]);
  }
  Stream host(DeviceType::cpu);
  const TensorView view(rows.data(), DType::fp64, DeviceType::cpu, {rows.size()});
  world.all_reduce(host, view, {.purpose = Purpose::control}).wait(host);
  std::pair<MemoryUse, size_t> found;
  for (size_t rank = 0; rank < world.size(); ++rank) {
    MemoryUse use;
    for (size_t i = 0; i < width; ++i) use.bytes[i] = static_cast<size_t>(rows[rank * width + i]);
    if (use.total() > found.first.total()) found = {use, rank};
  }
  return found;
}

}  // namespace

NeededMemory largest_memory(const Prediction& prediction, Communicator& world) {
  NeededMemory needed;
  std::tie(needed.device, needed.device_rank) = largest(prediction.device, world);
  std::tie(needed.host, needed.host_rank) = largest(prediction.host, world);
  return needed;
}

}  // namespace ladder
