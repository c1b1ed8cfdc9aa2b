// Communicators without peers.
#pragma once

#include <memory>

#include "common/comm/communicator.h"

namespace ladder {

// A group of one rank: every operation is the identity.
class OneRank final : public Communicator {
 public:
  explicit OneRank(DeviceType device = DeviceType::cpu)
      : Communicator(0, 1, device, device != DeviceType::cpu) {}
  ~OneRank() override { stop(); }
  std::unique_ptr<Communicator> split(size_t color) override;

 private:
  size_t execute(const Request& request) override;
  void enqueue(const Request& request, Stream& queue) override;
};

// True rank and size, but nothing moves: the negative control of tests.
class Unconnected final : public Communicator {
 public:
  // Groups along the axes of the grid are the same.
  explicit Unconnected(const ProcessGrid& grid, DeviceType device = DeviceType::cpu)
      : Communicator(grid.rank, grid.world_size(), device), grid_(grid) {}
  Unconnected(size_t rank, size_t size, DeviceType device = DeviceType::cpu)
      : Unconnected({.data_size = size, .rank = rank}, device) {}
  ~Unconnected() override { stop(); }
  std::unique_ptr<Communicator> split(size_t color) override;

 private:
  size_t execute(const Request&) override { return 0; }
  std::unique_ptr<Communicator> split_on(Axis axis, size_t color) override;

  ProcessGrid grid_;
};

}  // namespace ladder
