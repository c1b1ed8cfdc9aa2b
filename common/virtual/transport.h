// Groups of simulated ranks.
#pragma once

#include <optional>
#include <string>

#include "common/comm/transport.h"
#include "common/grid/process_grid.h"
#include "common/virtual/engine.h"

namespace ladder {

// Operations take time on the engine's cluster and move nothing.
class SimulatedTransport final : public Transport {
 public:
  // The group of all ranks of the grid. REQUIRES: the engine runs grid.rank.
  SimulatedTransport(Engine& engine, const ProcessGrid& grid, DeviceType device);

  Moved execute(const Request& request) override;
  void enqueue(const Request& request, Stream& queue) override;
  std::unique_ptr<Transport> split(size_t color) override;
  std::unique_ptr<Transport> split_axis(Axis axis, size_t color) override;

 private:
  SimulatedTransport(Engine& engine, Engine::GroupId group, size_t rank, size_t size,
                     DeviceType device);

  Engine& engine_;
  std::optional<ProcessGrid> grid_;  // of the group of all ranks
  Engine::GroupId group_;
  Stream host_{DeviceType::cpu};
  size_t num_splits_ = 0;
};

}  // namespace ladder
