// Every rank in turn is the one that needs most.
#include "common/train/program/needed_memory.h"

#include "tests/catch.h"
#include "tests/mpi_main.h"

namespace ladder::testing {
namespace {

TEST_CASE("the largest totals of all ranks, with the ranks whose they are") {
  const auto all_gather = [](const auto& own) { return world().all_gather(own); };
  for (size_t device_rank = 0; device_rank < world().size(); ++device_rank) {
    const size_t host_rank = (device_rank + 1) % world().size();
    Prediction own;
    // The totals decide, not a category: the others have more activations.
    own.device[Category::parameters] = world().rank() == device_rank ? (size_t{1} << 52) + 1 : 10;
    own.device[Category::activations] = world().rank() == device_rank ? 5 : 6;
    own.host[Category::optimizer] = world().rank() == host_rank ? 100 : 99;
    const NeededMemory needed = largest_memory(own, all_gather);
    CHECK(needed.device_rank == device_rank);
    CHECK(needed.device[Category::parameters] == (size_t{1} << 52) + 1);
    CHECK(needed.device[Category::activations] == 5);
    CHECK(needed.host_rank == host_rank);
    CHECK(needed.host.total() == 100);
  }
  Prediction same;
  same.device[Category::parameters] = 7;
  CHECK(largest_memory(same, all_gather).device_rank == 0);
}

}  // namespace
}  // namespace ladder::testing
