// Slices: each token belongs to one rank, each query sees the keys up to itself once, and the pairs
// on the critical path are as the README says.
#include "lessons/14_context_parallel/slices.h"

#include <algorithm>
#include <set>

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("every query sees each key up to itself once, and no other") {
  for (Slicing slicing : {Slicing::contiguous, Slicing::zigzag}) {
    for (size_t n : {1, 2, 3, 4, 8}) {
      for (size_t tokens = n; tokens < 4 * n + 3; ++tokens) {
        INFO((slicing == Slicing::zigzag ? "zigzag, " : "contiguous, ")
             << n << " ranks, " << tokens << " tokens");
        const SlicePlan plan(slicing, tokens, n);
        std::multiset<std::pair<int32_t, int32_t>> seen;  // query and key, by position
        std::multiset<int32_t> all;
        for (size_t rank = 0; rank < n; ++rank) {
          const std::vector<int32_t> mine = plan.positions(rank);
          CHECK(mine.size() == plan.num_tokens(rank));
          CHECK(mine.size() <= (tokens + n - 1) / n);
          CHECK(mine.size() >= tokens / n);
          CHECK(std::ranges::is_sorted(mine));
          all.insert(mine.begin(), mine.end());
          size_t pairs = 0;
          for (size_t owner = 0; owner < n; ++owner) {
            const auto block = plan.tile(rank, owner);
            if (!block) continue;
            pairs += block->num_pairs();
            const std::vector<int32_t> keys = plan.positions(owner);
            for (size_t i = 0; i < block->num_queries; ++i) {
              for (size_t j = 0; j < (block->causal ? i + 1 : block->num_keys); ++j) {
                seen.emplace(mine.at(block->first_query + i), keys.at(j));
              }
            }
          }
          CHECK(pairs == plan.num_pairs(rank));
        }
        CHECK(plan.most_tokens() == (tokens + n - 1) / n);
        std::multiset<std::pair<int32_t, int32_t>> expected;
        std::multiset<int32_t> positions;
        for (int32_t i = 0; i < static_cast<int32_t>(tokens); ++i) {
          positions.insert(i);
          for (int32_t j = 0; j <= i; ++j) expected.emplace(i, j);
        }
        CHECK(all == positions);
        CHECK(seen == expected);
      }
    }
  }
}

TEST_CASE("rank r has slices r and 2 N - 1 - r of 2 N in a zigzag, one slice of N otherwise") {
  const SlicePlan zigzag(Slicing::zigzag, 16, 4);
  CHECK(zigzag.positions(0) == std::vector<int32_t>{0, 1, 14, 15});
  CHECK(zigzag.positions(3) == std::vector<int32_t>{6, 7, 8, 9});
  const SlicePlan uneven(Slicing::zigzag, 11, 4);  // 3, 3, 3 and 2 tokens
  CHECK(uneven.positions(0) == std::vector<int32_t>{0, 1, 10});
  CHECK(uneven.positions(3) == std::vector<int32_t>{6, 7});
  CHECK(SlicePlan(Slicing::contiguous, 11, 4).positions(3) == std::vector<int32_t>{9, 10});
}

TEST_CASE("on the critical path a zigzag has 2 - 1/N times fewer pairs") {
  for (size_t n : {1, 2, 4, 8}) {
    const size_t t = 64;  // tokens of a rank
    const SlicePlan contiguous(Slicing::contiguous, n * t, n), zigzag(Slicing::zigzag, n * t, n);
    // At the first step every rank has its own keys, (t^2 + t) / 2 pairs. At each later one some
    // rank has all t^2 pairs, and in a zigzag every rank half of them.
    CHECK(contiguous.pairs_on_critical_path() == (t * t + t) / 2 + (n - 1) * t * t);
    CHECK(zigzag.pairs_on_critical_path() == (t * t + t) / 2 + (n - 1) * t * t / 2);
    for (size_t rank = 0; rank < n; ++rank) {
      CHECK(zigzag.num_pairs(rank) == zigzag.pairs_on_critical_path());
    }
    CHECK(contiguous.num_pairs(0) == (t * t + t) / 2);
    CHECK(contiguous.num_pairs(n - 1) == contiguous.pairs_on_critical_path());
  }
}

TEST_CASE("a rank without tokens is refused") {
  CHECK_NOTHROW(SlicePlan(Slicing::zigzag, 4, 4));
  CHECK_THROWS_WITH(SlicePlan(Slicing::zigzag, 3, 4),
                    "--context-parallel-size 4: a sequence of 3 tokens leaves ranks without one; 3 "
                    "would do");
}

TEST_CASE("the header says who has which tokens") {
  const std::string text = describe_slices(Slicing::zigzag, 11, 4);
  CHECK_THAT(text, ContainsSubstring("0  0 to 1, 10 to 10 ") && ContainsSubstring("3  6 to 7 "));
  CHECK_THAT(text, ContainsSubstring("critical path: 22\n"));
}

}  // namespace
}  // namespace ladder
