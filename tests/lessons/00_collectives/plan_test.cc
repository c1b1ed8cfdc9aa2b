// Every algorithm for every collective, carried out in one process, and what it sends.
#include <cmath>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/lessons/00_collectives/collectives.h"

namespace ladder::testing {
namespace {

size_t log2_up(size_t n) {
  size_t log = 0;
  while ((size_t{1} << log) < n) ++log;
  return log;
}

size_t elements_sent(const std::vector<Exchange>& exchanges) {
  size_t sum = 0;
  for (const Exchange& exchange : exchanges) sum += exchange.send ? exchange.send->range.size() : 0;
  return sum;
}

// Elements that differ from what they must be.
size_t num_wrong(const Plan& plan, Collective collective, size_t n) {
  const size_t num_ranks = plan.size();
  std::vector<std::vector<double>> vectors(num_ranks);
  for (size_t r = 0; r < num_ranks; ++r) {
    for (size_t i = 0; i < n; ++i) {
      vectors[r].push_back(before(collective, num_ranks, n, r, i));
    }
  }
  run_plan(plan, vectors);
  size_t wrong = 0;
  for (size_t r = 0; r < num_ranks; ++r) {
    for (size_t i = 0; i < n; ++i) {
      const auto wanted = after(collective, num_ranks, n, r, i);
      wrong += wanted && vectors[r][i] != *wanted;
    }
  }
  return wrong;
}

TEST_CASE("every plan of up to 16 ranks does what its collective says") {
  size_t num_plans = 0;
  for (size_t num_ranks = 1; num_ranks <= 16; ++num_ranks) {
    for (size_t n :
         {size_t{0}, size_t{1}, size_t{5}, num_ranks, 3 * num_ranks - 1, size_t{48}, size_t{101}}) {
      for_all_plans(num_ranks, [&](Algorithm algorithm, Collective collective) {
        const size_t length = collective == Collective::all_to_all ? n / num_ranks * num_ranks : n;
        const Plan plan = make_plan(algorithm, collective, num_ranks, length);
        CAPTURE(name_of(algorithm), name_of(collective), num_ranks, length);
        REQUIRE(plan.size() == num_ranks);
        REQUIRE(num_wrong(plan, collective, length) == 0);
        ++num_plans;
      });
    }
  }
  CHECK(num_plans > 1500);
}

TEST_CASE("all_reduce: rounds, exchanges and elements are those of the formulas") {
  for (size_t num_ranks = 2; num_ranks <= 16; ++num_ranks) {
    const size_t n = 720720;  // 1 to 16 divide it
    const size_t log = log2_up(num_ranks), part = n / num_ranks;
    CAPTURE(num_ranks);
    const auto plan_of = [&](Algorithm algorithm) {
      return make_plan(algorithm, Collective::all_reduce, num_ranks, n);
    };
    const Plan naive = plan_of(Algorithm::naive), ring = plan_of(Algorithm::ring),
               tree = plan_of(Algorithm::tree);
    CHECK(rounds_of(naive).size() == 2 * (num_ranks - 1));
    CHECK(rounds_of(ring).size() == 2 * (num_ranks - 1));
    CHECK(rounds_of(tree).size() == 2 * log);
    CHECK(naive[0].size() == 2 * (num_ranks - 1));
    CHECK(tree[0].size() == 2 * log);
    CHECK(elements_sent(naive[0]) == (num_ranks - 1) * n);
    CHECK(elements_sent(tree[0]) == log * n);
    for (size_t r = 0; r < num_ranks; ++r) {
      CHECK(ring[r].size() == 2 * (num_ranks - 1));
      CHECK(elements_sent(ring[r]) == 2 * (num_ranks - 1) * part);
      if (r > 0) CHECK(elements_sent(naive[r]) == n);
      for (const Exchange& exchange : ring[r]) {
        CHECK((exchange.send && exchange.send->peer == (r + 1) % num_ranks));
        CHECK((exchange.receive && (exchange.receive->peer + 1) % num_ranks == r));
      }
      CHECK(tree[r].size() <= 2 * log);
      CHECK(elements_sent(tree[r]) <= log * n);
    }
    if (!is_power_of_two(num_ranks)) continue;
    const Plan halving = plan_of(Algorithm::halving);
    CHECK(rounds_of(halving).size() == 2 * log);
    for (const std::vector<Exchange>& exchanges : halving) {
      CHECK(exchanges.size() == 2 * log);
      CHECK(elements_sent(exchanges) == 2 * (num_ranks - 1) * part);
    }
  }
}

TEST_CASE("the other collectives: rounds, and elements of the rank that sends most") {
  const size_t n = 720720;
  struct Formula {
    size_t rounds, elements;
  };
  for (size_t num_ranks = 2; num_ranks <= 16; ++num_ranks) {
    const size_t log = log2_up(num_ranks), others = num_ranks - 1, part = n / num_ranks;
    for_all_plans(num_ranks, [&](Algorithm algorithm, Collective collective) {
      using enum Collective;
      const bool is_naive = algorithm == Algorithm::naive, is_ring = algorithm == Algorithm::ring;
      Formula want{};
      if (collective == all_reduce) return;
      if (collective == broadcast) {
        want = is_naive  ? Formula{others, others * n}
               : is_ring ? Formula{2 * others, n}
                         : Formula{log, log * n};
        if (is_ring) want.rounds = 2 * num_ranks - 2;  // N parts, and N - 2 more ranks to pass
      } else if (collective == reduce) {
        want = {is_naive ? others : is_ring ? 2 * num_ranks - 2 : log, n};
      } else if (collective == all_to_all) {
        // Pairs in the order of their numbers: (0, 1), (0, 2), ..., the last is (N-2, N-1).
        want = {is_naive ? 2 * num_ranks - 3 : num_ranks - (num_ranks == 2), others * part};
      } else if (is_naive) {
        const bool is_gather = collective == all_gather;
        want = {2 * others, is_gather ? others * n : std::max(n, others * part)};
      } else {
        want = {is_ring ? others : log, others * part};
      }
      const Plan plan = make_plan(algorithm, collective, num_ranks, n);
      size_t most = 0;
      for (const std::vector<Exchange>& exchanges : plan)
        most = std::max(most, elements_sent(exchanges));
      CAPTURE(name_of(algorithm), name_of(collective), num_ranks);
      CHECK(rounds_of(plan).size() == want.rounds);
      CHECK(most == want.elements);
    });
  }
}

TEST_CASE("what cannot be planned is refused, with what can") {
  const auto refusal = [](Algorithm algorithm, Collective collective, size_t num_ranks) {
    try {
      make_plan(algorithm, collective, num_ranks, 16);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refusal(Algorithm::halving, Collective::all_reduce, 6),
             ContainsSubstring("power of two") && ContainsSubstring("6") &&
                 ContainsSubstring("next one is 8"));
  CHECK_THAT(refusal(Algorithm::tree, Collective::all_gather, 4), ContainsSubstring("tree"));
  CHECK_THAT(refusal(Algorithm::halving, Collective::broadcast, 4), ContainsSubstring("halving"));
  CHECK_THROWS_AS(make_plan(Algorithm::ring, Collective::all_to_all, 3, 16), Error);
}

TEST_CASE("plans whose ranks wait for ever, or disagree, are found") {
  const auto send = [](size_t peer, Elements range) {
    return Exchange{{{peer, range}}, {}, false};
  };
  const auto receive = [](size_t peer, Elements range) {
    return Exchange{{}, {{peer, range}}, false};
  };
  CHECK(rounds_of({{send(1, {0, 4})}, {receive(0, {0, 4})}}).size() == 1);
  CHECK_THROWS_AS(rounds_of({{send(1, {0, 4})}, {receive(0, {0, 3})}}), Error);
  CHECK_THROWS_AS(rounds_of({{send(1, {0, 4})}, {}}), Error);
  // Both receive before they send.
  CHECK_THROWS_AS(
      rounds_of({{receive(1, {0, 4}), send(1, {0, 4})}, {receive(0, {0, 4}), send(0, {0, 4})}}),
      Error);
}

TEST_CASE("the check of results finds a plan that is wrong in one place") {
  Plan plan = make_plan(Algorithm::ring, Collective::all_reduce, 4, 8);
  CHECK(num_wrong(plan, Collective::all_reduce, 8) == 0);
  plan[2][1].adds = false;
  CHECK(num_wrong(plan, Collective::all_reduce, 8) > 0);
}

}  // namespace
}  // namespace ladder::testing
