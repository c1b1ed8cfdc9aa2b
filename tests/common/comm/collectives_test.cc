#include <catch2/catch.hpp>

#include "common/comm/mpi_communicator.h"
#include "tests/mpi_main.h"

namespace ladder {
namespace {

using testing::world;

// Small whole numbers: every sum is exact, so every result is compared bit by bit.
double value(size_t rank, size_t i) { return static_cast<double>((rank * 7 + i * 3) % 101) - 50; }

TEST_CASE("all_reduce, registered and not") {
  Stream stream(DeviceType::cpu);
  Memory memory(DeviceType::cpu, "device", 0);
  NodeMemory node_memory(world());
  const auto all = MpiCommunicator::make_world(world(), &node_memory, {.piece_elements = 1000});
  for (size_t ranks = 1; ranks <= world().size(); ++ranks) {
    const bool in = world().rank() < ranks;
    const auto group = all->split(in ? 0 : 1);
    for (size_t n : {1, 17, 1000, 10007}) {
      for (MemorySource* source : {static_cast<MemorySource*>(&node_memory), static_cast<MemorySource*>(nullptr)}) {
        const Tensor t(memory, Category::communication, DType::fp32, {n}, source);
        if (!in) continue;
        for (size_t i = 0; i < n; ++i) t.view().as<float>()[i] = value(world().rank(), i);
        group->all_reduce(stream, t, {.purpose = Purpose::gradient}).wait(stream);
        for (size_t i = 0; i < n; ++i) {
          double sum = 0;
          for (size_t r = 0; r < ranks; ++r) sum += value(r, i);
          if (t.view().as<float>()[i] != sum) FAIL(ranks << " " << n << " " << i);
        }
        group->all_reduce(stream, t, {.purpose = Purpose::gradient, .background = true}).wait(stream);
      }
    }
    all->barrier();
  }
}

}  // namespace
}  // namespace ladder
