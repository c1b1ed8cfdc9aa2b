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
  void execute(const Request& request) override;
  void enqueue(const Request& request, Stream& queue) override;
};

// True rank and size, but nothing moves: the negative control of tests.
class Unconnected final : public Communicator {
 public:
  Unconnected(size_t rank, size_t size, DeviceType device = DeviceType::cpu)
      : Communicator(rank, size, device) {}
  ~Unconnected() override { stop(); }
  std::unique_ptr<Communicator> split(size_t color) override;

 private:
  void execute(const Request&) override {}
};

}  // namespace ladder
