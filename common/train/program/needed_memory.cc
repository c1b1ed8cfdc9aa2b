#include "common/train/program/needed_memory.h"

#include <algorithm>

namespace ladder {

void NeededMemory::consider(size_t rank, const MemoryUse& its_device, const MemoryUse& its_host) {
  if (its_device.total() > device.total()) {
    device = its_device;
    device_rank = rank;
  }
  if (its_host.total() > host.total()) {
    host = its_host;
    host_rank = rank;
  }
}

NeededMemory memory_of_stages(const Program& program, const RunConfig& config, size_t num_ranks) {
  NeededMemory needed;
  const ProcessGrid first = program.grid(num_ranks, 0);
  for (size_t stage = 0; stage < first.pipeline_size; ++stage) {
    const size_t rank = first.rank_at(Axis::pipeline, stage);
    const Prediction its = predict_memory(program, config, program.grid(num_ranks, rank));
    needed.consider(rank, its.device, its.host);
  }
  return needed;
}

NeededMemory largest_memory(const Prediction& prediction, const AllGather& all_gather) {
  const auto all = [&](const MemoryUse& own) {
    return all_gather({own.bytes.begin(), own.bytes.end()});
  };
  const auto of = [](const std::vector<uint64_t>& rows, size_t rank) {
    MemoryUse use;
    std::copy_n(rows.data() + rank * use.bytes.size(), use.bytes.size(), use.bytes.data());
    return use;
  };
  const std::vector<uint64_t> devices = all(prediction.device), hosts = all(prediction.host);
  NeededMemory needed;
  for (size_t rank = 0; rank < devices.size() / kCategories.size(); ++rank) {
    needed.consider(rank, of(devices, rank), of(hosts, rank));
  }
  return needed;
}

}  // namespace ladder
