// Cuts of units into stages, against all cuts there are.
#include "common/schedule/balance.h"

#include <algorithm>
#include <random>

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

// Cost of the dearest stage, sum of squares. Costs are small integers, so all sums are exact.
using Value = std::pair<double, double>;

Value value_of(const std::vector<double>& costs, const std::vector<size_t>& cut) {
  Value value{0, 0};
  for (size_t s = 0; s < cut.size(); ++s) {
    double cost = 0;
    const size_t end = s + 1 < cut.size() ? cut[s + 1] : costs.size();
    for (size_t unit = cut[s]; unit < end; ++unit) cost += costs[unit];
    value = {std::max(value.first, cost), value.second + cost * cost};
  }
  return value;
}

Value best_value(const std::vector<double>& costs, size_t num_stages) {
  std::vector<bool> begins(costs.size() - 1, false);  // does a stage begin at unit i + 1?
  std::fill(begins.end() - static_cast<ptrdiff_t>(num_stages - 1), begins.end(), true);
  Value best{1e30, 1e30};
  do {
    std::vector<size_t> cut = {0};
    for (size_t i = 0; i < begins.size(); ++i) {
      if (begins[i]) cut.push_back(i + 1);
    }
    best = std::min(best, value_of(costs, cut));
  } while (std::next_permutation(begins.begin(), begins.end()));
  return best;
}

TEST_CASE("no cut is better than the one chosen") {
  std::mt19937 random(7);
  for (size_t n = 1; n <= 9; ++n) {
    for (size_t round = 0; round < 20; ++round) {
      std::vector<double> costs(n);
      for (double& cost : costs) cost = static_cast<double>(random() % 6);
      for (size_t p = 1; p <= n; ++p) {
        const std::vector<size_t> cut = cut_line(costs, p);
        CAPTURE(costs, p, cut);
        REQUIRE(cut.size() == p);
        REQUIRE(cut[0] == 0);
        REQUIRE(std::ranges::adjacent_find(cut, std::greater_equal<>()) == cut.end());
        REQUIRE(cut.back() < n);
        REQUIRE(value_of(costs, cut) == best_value(costs, p));
      }
    }
  }
}

TEST_CASE("the dearest stage comes first, then the squares, then the later cut") {
  // {4, 1} {1} {5} and {4} {1, 1} {5} have the same dearest stage; the second is more even.
  CHECK(cut_line({4, 1, 1, 5}, 3) == std::vector<size_t>{0, 1, 3});
  // The smallest sum of squares alone would be {3, 3} {4}... but never at the cost of the dearest.
  CHECK(cut_line({3, 3, 4}, 2) == std::vector<size_t>{0, 2});
  CHECK(cut_line({0, 0, 5, 5}, 3) == std::vector<size_t>{0, 2, 3});
}

TEST_CASE("more stages than units are the user's mistake") {
  CHECK(cut_line({1, 1, 1}, 3) == std::vector<size_t>{0, 1, 2});
  CHECK_THROWS_AS(cut_line({1, 1, 1}, 4), UserError);
  CHECK_THROWS_WITH(cut_line({1, 1, 1}, 4), ContainsSubstring("--pipeline-parallel-size 4") &&
                                                ContainsSubstring("3 units") &&
                                                ContainsSubstring("at most 3 stages"));
  CHECK_THROWS_AS(cut_line({1, 1, 1}, 0), Error);
}

TEST_CASE("balance is mean over max") {
  CHECK(balance({3, 3, 6}) == 4.0 / 6.0);
  CHECK(balance({2, 2}) == 1);
  CHECK(balance({0, 0, 9}) == 1.0 / 3.0);
  CHECK(balance({5}) == 1);
  CHECK(balance({0, 0}) == 1);
}

}  // namespace
}  // namespace ladder
