// Which rank carries what between machines, of machines with any numbers of ranks. Sums have the
// same bits whoever carries their terms, so only counting shows that the work is divided.
#include "common/comm/machines.h"

#include <random>

#include "tests/catch.h"
#include "tests/sample.h"

namespace ladder {
namespace {

TEST_CASE("each slice is carried once on every machine, and the ranks of a machine take turns") {
  testing::for_random_cases(100, [](size_t seed) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const size_t num_ranks = 1 + random() % 20, num_machines = 1 + random() % 4;
    std::vector<size_t> machine_of;
    for (size_t r = 0; r < num_ranks; ++r) machine_of.push_back(random() % num_machines);
    CAPTURE(seed, machine_of);
    const Machines machines(machine_of, random() % num_ranks);
    size_t most_carried = 0;
    for (size_t machine = 0; machine < machines.size(); ++machine) {
      const size_t size = machines.ranks(machine).size();
      std::vector<size_t> carried(num_ranks);
      for (size_t slice = 0; slice < num_ranks; ++slice) {
        const bool is_own = machines.machine_of(slice) == machine;
        const size_t carrier = machines.carrier(machine, slice);
        CHECK(machines.machine_of(carrier) == machine);
        CHECK(machines.carries(carrier, slice) == !is_own);
        if (is_own) CHECK(carrier == slice);
        if (!is_own) ++carried[carrier];
      }
      for (const size_t rank : machines.ranks(machine)) {
        size_t turns = 0;
        for (size_t turn = 0; turn < size; ++turn) turns += machines.has_turn(rank, turn);
        CHECK(turns == 1);
        CHECK(carried[rank] <= (num_ranks + size - 1) / size);
        if (size > 1) most_carried = std::max(most_carried, carried[rank]);
      }
    }
    CHECK(machines.most_slices() == most_carried + machines.size() - 1);
  });
}

}  // namespace
}  // namespace ladder
