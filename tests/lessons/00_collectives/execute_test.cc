// Plans between real ranks, in groups of 1 to 8: in shared memory and by messages.
#include "lessons/00_collectives/execute.h"

#include <vector>

#include "tests/catch.h"
#include "tests/lessons/00_collectives/collectives.h"
#include "tests/mpi_main.h"

namespace ladder::testing {
namespace {

void check_plan(Communicator& group, Algorithm algorithm, Collective collective, size_t n) {
  const size_t size = group.size(), rank = group.rank();
  // An element more on each side, which nobody may write.
  std::vector<float> memory(n + 2, -7), scratch(n + 1);
  for (size_t i = 0; i < n; ++i) {
    memory[i + 1] = static_cast<float>(before(collective, size, n, rank, i));
  }
  const TensorView vector(memory.data() + 1, DType::fp32, DeviceType::cpu, {n});
  Stream stream(DeviceType::cpu);
  execute(group, stream, make_plan(algorithm, collective, size, n)[rank], vector,
          TensorView(scratch.data(), DType::fp32, DeviceType::cpu, {n}));
  CAPTURE(name_of(algorithm), name_of(collective), size, n);
  size_t wrong = memory.front() != -7 || memory.back() != -7;
  for (size_t i = 0; i < n; ++i) {
    const auto wanted = after(collective, size, n, rank, i);
    wrong += wanted && memory[i + 1] != static_cast<float>(*wanted);
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("every plan between ranks does what its collective says") {
  NodeMemory node_memory(world());
  const bool in_shared_memory = GENERATE(true, false);
  // Sends end only when their receivers have come: nothing rests on MPI's buffers.
  const auto all = make_communicator(world(), in_shared_memory ? &node_memory : nullptr,
                                     {.synchronous_sends = true});
  for (size_t k = 1; k <= all->size(); ++k) {
    const auto group = all->split(all->rank() < k ? 0 : 1);
    for (size_t n : {1, 5, 48, 1001, 40'000}) {
      for_all_plans(group->size(), [&](Algorithm algorithm, Collective collective) {
        const size_t size = group->size();
        const size_t length = collective == Collective::all_to_all ? n / size * size : n;
        check_plan(*group, algorithm, collective, length);
      });
    }
  }
}

}  // namespace
}  // namespace ladder::testing
