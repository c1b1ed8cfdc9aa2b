// How ranks communicate on the virtual device: in simulated time, without data. The interface is
// common/comm/transport.h. The ranks are fibers of one process (engine.h).
#pragma once

#include <optional>
#include <string>

#include "common/comm/transport.h"
#include "common/grid/process_grid.h"
#include "common/virtual/engine.h"

namespace ladder {

// SimulatedTransport is the running rank's end of a group of ranks. Each operation becomes one
// Engine::communicate(): it begins when all ranks of the group (or both of a send and its recv)
// have come to it, takes the time that the engine's TimeModel says for its bytes, and moves
// nothing. Its bytes are those of the longer of Request::in and out. For an all_to_all in which
// ranks give unequally many, they are the most that one rank sends or receives. The engine throws
// an Error if the ranks of a group ask for different operations.
class SimulatedTransport final : public Transport {
 public:
  // Makes the group of all ranks of the grid; grid.rank is this one. `device` is the kind of device
  // on which buffers lie. The engine must outlive the transport. REQUIRES: the engine runs
  // grid.rank at the moment.
  SimulatedTransport(Engine& engine, const ProcessGrid& grid, DeviceType device);

  // Operations of host memory. Returns when the operation is over in simulated time; other ranks
  // run meanwhile. Returns that nothing was moved.
  Moved execute(const Request& request) override;
  // Operations of device memory. Queues one on the stream and returns at once.
  void enqueue(const Request& request, Stream& queue) override;
  // Throws an Error: in a simulation, groups are made along an axis only.
  std::unique_ptr<Transport> split(size_t color) override;
  // Makes the group of the ranks along an axis through this rank. Every call makes a new group with
  // a queue of its own, so all ranks must make the same calls in the same order. REQUIRES: this is
  // the group of all ranks.
  std::unique_ptr<Transport> split_axis(Axis axis, size_t color) override;

 private:
  SimulatedTransport(Engine& engine, Engine::GroupId group, size_t rank, size_t size,
                     DeviceType device);

  Engine& engine_;
  std::optional<ProcessGrid> grid_;  // only in the group of all ranks
  Engine::GroupId group_;
  Stream host_{DeviceType::cpu};  // where execute() queues
  size_t num_splits_ = 0;         // groups that were made from this one
};

}  // namespace ladder
