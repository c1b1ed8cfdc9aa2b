// Two transports that move nothing between ranks: a group of one rank, and a group of several whose
// ranks are not connected.
#pragma once

#include <memory>

#include "common/comm/transport.h"
#include "common/grid/process_grid.h"

namespace ladder {

// OneRank is a group of one rank. Every operation copies its input to its output.
class OneRank final : public Transport {
 public:
  explicit OneRank(DeviceType device = DeviceType::cpu)
      : Transport(0, 1, device, device != DeviceType::cpu) {}

  Moved execute(const Request& request) override;
  void enqueue(const Request& request, Stream& queue) override;
  std::unique_ptr<Transport> split(size_t color) override;

  // Returns whether the output has the values of the input already.
  static bool has_nothing_to_do(const Request& request);
};

// Unconnected has the true rank and size but moves nothing. Rehearsals use it, in a simulation,
// where all operations are queued. Tests use it to see that their comparisons find the wrong
// results (the negative control).
class Unconnected final : public Transport {
 public:
  // Groups along the axes of the grid are unconnected too, and have the rank and size of the grid.
  explicit Unconnected(const ProcessGrid& grid, DeviceType device = DeviceType::cpu)
      : Transport(grid.rank, grid.world_size(), device, Simulation::current() != nullptr),
        grid_(grid) {}
  Unconnected(size_t rank, size_t size, DeviceType device = DeviceType::cpu)
      : Unconnected({.data_size = size, .rank = rank}, device) {}

  Moved execute(const Request&) override { return {}; }
  void enqueue(const Request&, Stream&) override {}
  std::unique_ptr<Transport> split(size_t color) override;
  std::unique_ptr<Transport> split_axis(Axis axis, size_t color) override;
  // Returns how many groups of several ranks split_axis() has made.
  size_t num_groups() const { return num_groups_; }

 private:
  ProcessGrid grid_;
  size_t num_groups_ = 0;
};

}  // namespace ladder
