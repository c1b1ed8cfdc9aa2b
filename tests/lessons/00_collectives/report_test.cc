// The table of what was measured, against numbers computed by hand.
#include "lessons/00_collectives/measure.h"
#include "tests/catch.h"

namespace ladder {
namespace {

constexpr Way kRing = Algorithm::ring, kShared = std::nullopt;

TEST_CASE("rates are those of the whole vector, and of what a rank puts on the wire") {
  const std::vector<Measurement> timed = {{kRing, 1'000'000, 3, 1e-3}, {kRing, 2'000'000, 0, 2e-3}};
  // 1 MB in a millisecond; of four ranks each sends 2 x 3/4 of the vector.
  CHECK_THAT(
      table_of(Collective::all_reduce, 4, timed),
      ContainsSubstring("\nring          1000000     1000.00        1.00        1.50       3\n"));
  CHECK_THAT(table_of(Collective::all_gather, 4, timed),
             ContainsSubstring("1000.00        1.00        0.75       3\n"));
  CHECK_THAT(table_of(Collective::broadcast, 4, timed),
             ContainsSubstring("1000.00        1.00        1.00       3\n"));
  CHECK_THAT(
      table_of(Collective::all_reduce, 4, {{kRing, 1'000'000, 0, 0}}),
      ContainsSubstring("\nring          1000000           -           -           -       0\n") &&
          !ContainsSubstring("fitted"));
}

TEST_CASE("a cost is fitted to each way's own times, and its largest error is told") {
  // 5 us and 2 GB/s; 20 us and 1 GB/s, of which one is four times as long.
  std::vector<Measurement> timed;
  constexpr double kBytes[] = {1e3, 1e4, 1e5, 1e6};
  for (const double bytes : kBytes) {
    timed.push_back({kRing, static_cast<size_t>(bytes), 0, 5e-6 + bytes / 2e9});
  }
  for (const double bytes : kBytes) {
    const double seconds = (20e-6 + bytes / 1e9) * (bytes == 1e4 ? 4 : 1);
    timed.push_back({kShared, static_cast<size_t>(bytes), 0, seconds});
  }
  const std::string text = table_of(Collective::all_reduce, 2, timed);
  CHECK_THAT(text, ContainsSubstring("\nring             5.00        2.00            0 %\n"));
  const std::string shared = text.substr(text.rfind("\nshared"));
  const std::string error = shared.substr(0, shared.find(" %"));
  CHECK(std::stod(error.substr(error.rfind(' '))) >=
        50);  // whatever the fit: it cannot be near to all
}

TEST_CASE("a chart has one series for ways that do the same, so that none is hidden") {
  std::vector<Measurement> timed;
  for (const Way way : {Way(Algorithm::naive), Way(Algorithm::ring), Way(Algorithm::tree),
                        Way(Algorithm::halving), kShared}) {
    for (const size_t bytes : {1000, 2000}) timed.push_back({way, bytes, 0, 1e-6});
  }
  const auto names_in = [&](size_t num_ranks) {
    const std::string chart = chart_of(Collective::all_reduce, num_ranks, timed);
    std::vector<std::string> names;
    for (const std::string name :
         {"naive = tree", "ring = halving", "naive", "ring", "tree", "halving", "shared"}) {
      if (chart.find(">" + name + "<") != std::string::npos) names.push_back(name);
    }
    return names;
  };
  CHECK(names_in(2) == std::vector<std::string>{"naive = tree", "ring = halving", "shared"});
  CHECK(names_in(4) == std::vector<std::string>{"naive", "ring", "tree", "halving", "shared"});
}

}  // namespace
}  // namespace ladder
