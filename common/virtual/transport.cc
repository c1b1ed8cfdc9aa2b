#include "common/virtual/transport.h"

#include <algorithm>
#include <numeric>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

Engine::GroupId world_of(Engine& engine, const ProcessGrid& grid) {
  return engine.group("world", [&] {
    std::vector<size_t> ranks(grid.world_size());
    std::iota(ranks.begin(), ranks.end(), size_t{0});
    return Engine::Group{ranks, ""};
  });
}

// Returns the bytes of the full vector. Where ranks give unequally many, what one that sends or
// receives the most gives decides.
size_t payload_of(const Request& request, size_t size) {
  if (request.collective == Collective::all_to_all && !request.counts.are_equal()) {
    size_t most = 0;
    for (size_t rank = 0; rank < size; ++rank) {
      most = std::max({most, request.counts.sent(rank), request.counts.received(rank)});
    }
    return most * size_of(request.in.dtype());
  }
  const size_t in = request.in.empty() ? 0 : request.in.num_bytes();
  return std::max(in, request.out.empty() ? 0 : request.out.num_bytes());
}

}  // namespace

SimulatedTransport::SimulatedTransport(Engine& engine, const ProcessGrid& grid, DeviceType device)
    : SimulatedTransport(engine, world_of(engine, grid), grid.rank, grid.world_size(), device) {
  grid_ = grid;
}

SimulatedTransport::SimulatedTransport(Engine& engine, Engine::GroupId group, size_t rank,
                                       size_t size, DeviceType device)
    : Transport(rank, size, device, true), engine_(engine), group_(group) {}

Moved SimulatedTransport::execute(const Request& request) {
  enqueue(request, host_);
  host_.synchronize();
  return {};
}

void SimulatedTransport::enqueue(const Request& request, Stream& queue) {
  engine_.communicate(queue.simulated(), group_, rank(), request.collective, request.peer,
                      payload_of(request, size()));
}

std::unique_ptr<Transport> SimulatedTransport::split(size_t) {
  fail("a group of simulated ranks: split it along an axis");
}

std::unique_ptr<Transport> SimulatedTransport::split_axis(Axis axis, size_t color) {
  check(grid_.has_value(), "split_axis: of a group along an axis");
  const ProcessGrid::Group own = grid_->group(axis);
  // Several groups of the same ranks have queues of their own, like a split of the real thing.
  const std::string key = concat(name_of(axis), " ", color, " ", num_splits_++);
  const Engine::GroupId group = engine_.group(key, [&] {
    return Engine::Group{grid_->ranks_of_group(axis), std::string(name_of(axis))};
  });
  return std::unique_ptr<Transport>(
      new SimulatedTransport(engine_, group, own.rank, own.size, device()));
}

}  // namespace ladder
