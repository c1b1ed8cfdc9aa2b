// Groups without messages: of one rank, and of ranks that are not connected.
#pragma once

#include <memory>

#include "common/comm/transport.h"
#include "common/grid/process_grid.h"

namespace ladder {

// A group of one rank: every operation is the identity.
class OneRank final : public Transport {
 public:
  explicit OneRank(DeviceType device = DeviceType::cpu)
      : Transport(0, 1, device, device != DeviceType::cpu) {}

  size_t execute(const Request& request) override;
  void enqueue(const Request& request, Stream& queue) override;
  std::unique_ptr<Transport> split(size_t color) override;
};

// True rank and size, but nothing moves: for rehearsals, and the negative control of tests.
class Unconnected final : public Transport {
 public:
  // Groups along the axes of the grid are the same.
  explicit Unconnected(const ProcessGrid& grid, DeviceType device = DeviceType::cpu)
      : Transport(grid.rank, grid.world_size(), device), grid_(grid) {}
  Unconnected(size_t rank, size_t size, DeviceType device = DeviceType::cpu)
      : Unconnected({.data_size = size, .rank = rank}, device) {}

  size_t execute(const Request&) override { return 0; }
  std::unique_ptr<Transport> split(size_t color) override;
  std::unique_ptr<Transport> split_axis(Axis axis, size_t color) override;

 private:
  ProcessGrid grid_;
};

}  // namespace ladder
