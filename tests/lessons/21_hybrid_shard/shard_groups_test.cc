// How ranks form groups that share a copy of the model.

#include "lessons/21_hybrid_shard/shard_groups.h"

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using Machines = std::vector<size_t>;

TEST_CASE("the default is the number of a machine's ranks") {
  const auto size_on = [](const Machines& machine_of) {
    ShardFlags flags;
    flags.adjust(machine_of);
    return flags.shard_size;
  };
  CHECK(size_on({0, 0, 2, 2}) == 2);
  CHECK(size_on({0, 1, 2, 3}) == 1);
  CHECK(size_on({0, 0, 0, 0}) == 4);
  CHECK(size_on({0, 1, 0, 1}) == 2);
  CHECK(size_on({}) == 0);  // nothing is known, and arrange() takes all ranks
  CHECK(ShardFlags{}.arrange(6, 1).shard_size == 6);
}

TEST_CASE("groups that cross machines are seen, and refused if machines are unequal") {
  CHECK_FALSE(groups_cross_machines({0, 0, 2, 2}, 2));
  CHECK(groups_cross_machines({0, 0, 2, 2}, 4));
  CHECK(groups_cross_machines({0, 1, 0, 1}, 2));
  CHECK_FALSE(groups_cross_machines({0, 1, 0, 1}, 1));
  CHECK_FALSE(groups_cross_machines({0, 0, 0, 0, 4, 4}, 2));
  ShardFlags flags = {.shard_size = 2};
  CHECK_NOTHROW(flags.adjust({0, 0, 0, 0, 4, 4}));
  CHECK_NOTHROW(flags.adjust({0, 1, 0, 1}));
  CHECK_THROWS_WITH(flags.adjust({0, 0, 0, 3}),
                    "--shard-size 2: a group would cross machines that have 1 and 3 ranks; take a "
                    "size that divides all of these");
  ShardFlags none;
  CHECK_THROWS_WITH(
      none.adjust({0, 0, 0, 3}),
      "--shard-size: it is the number of a machine's ranks, but machines have 1 and 3 "
      "ranks; say how many share a copy of the model");
}

TEST_CASE("sizes that do not divide the ranks are refused") {
  CHECK_THROWS_WITH(ShardFlags{.shard_size = 3}.arrange(4, 0),
                    "--shard-size 3 does not divide 4 ranks");
  CHECK_THROWS_AS(ShardFlags{.shard_size = 8}.arrange(4, 0), UserError);
}

TEST_CASE("ranks that hold the same shard have consecutive numbers in the layout") {
  const auto numbers = [](size_t num_ranks, size_t shard_size) {
    std::vector<size_t> all;
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      all.push_back(layout_rank(ShardFlags{.shard_size = shard_size}.arrange(num_ranks, rank)));
    }
    return all;
  };
  CHECK(numbers(4, 4) == std::vector<size_t>{0, 1, 2, 3});
  CHECK(numbers(4, 1) == std::vector<size_t>{0, 1, 2, 3});
  CHECK(numbers(4, 2) == std::vector<size_t>{0, 2, 1, 3});
  CHECK(numbers(6, 3) == std::vector<size_t>{0, 2, 4, 1, 3, 5});
}

}  // namespace
}  // namespace ladder
