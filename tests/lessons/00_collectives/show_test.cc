// The example of the README, as the program shows it.
#include "lessons/00_collectives/show.h"

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/lessons/00_collectives/collectives.h"

namespace ladder::testing {
namespace {

TEST_CASE("ring all_reduce on two ranks, to the letter") {
  CHECK(show_plan(Algorithm::ring, Collective::all_reduce, 2) ==
        "ring all_reduce on 2 ranks: 2 rounds\n"
        "  rank 0 has [1 2 3 4]\n"
        "  rank 1 has [5 6 7 8]\n"
        "round 0\n"
        "  rank 0 sends [3 4] to rank 1, adds [5 6] from rank 1 and has [6 8 3 4]\n"
        "  rank 1 sends [5 6] to rank 0, adds [3 4] from rank 0 and has [5 6 10 12]\n"
        "round 1\n"
        "  rank 0 sends [6 8] to rank 1, stores [10 12] from rank 1 and has [6 8 10 12]\n"
        "  rank 1 sends [10 12] to rank 0, stores [6 8] from rank 0 and has [6 8 10 12]\n");
}

TEST_CASE("what a rank does not have yet is a dot") {
  CHECK_THAT(show_plan(Algorithm::tree, Collective::broadcast, 3),
             ContainsSubstring("rank 2 has [. . . .]") &&
                 ContainsSubstring("rank 2 stores [1 2 3 4] from rank 0 and has [1 2 3 4]"));
  CHECK_THAT(show_plan(Algorithm::halving, Collective::all_gather, 2),
             ContainsSubstring("rank 0 has [1 2 . .]") &&
                 ContainsSubstring("rank 1 has [. . 7 8]") &&
                 ContainsSubstring("and has [1 2 7 8]"));
}

TEST_CASE("every algorithm can be shown on any number of ranks that it takes") {
  for (size_t num_ranks = 1; num_ranks <= 9; ++num_ranks) {
    for_all_plans(num_ranks, [&](Algorithm algorithm, Collective collective) {
      const std::string text = show_plan(algorithm, collective, num_ranks);
      CHECK_THAT(text,
                 ContainsSubstring(std::string(name_of(collective))) && !ContainsSubstring("nan"));
    });
  }
  CHECK_THROWS_AS(show_plan(Algorithm::halving, Collective::all_reduce, 3), UserError);
}

}  // namespace
}  // namespace ladder::testing
