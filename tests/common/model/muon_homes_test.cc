// The homes of Muon's weights, of models and groups drawn at random. No result depends on where a
// weight is made orthogonal, and when, so only counting shows that work and messages are divided.
#include "common/model/muon_homes.h"

#include <numeric>
#include <random>

#include "tests/catch.h"
#include "tests/common/model/support.h"
#include "tests/sample.h"

namespace ladder::testing {
namespace {

size_t elements_of(const HomedWeight& weight) {
  return weight.parts[0].slice->full_shape.num_elements();
}

// A model, and the homes of its weights in a group of ranks.
struct Drawn {
  explicit Drawn(size_t seed) : random(static_cast<std::mt19937::result_type>(seed)) {
    model = {.num_layers = 1 + below(6),
             .num_heads = 4,
             .hidden = 16 * (1 + below(4)),
             .vocab_size = 32,
             .sequence_length = 8};
    if (below(2) == 0) model = llama_like(model);
    model.ffn = 8 * (1 + below(40));
    num_ranks = 1 + below(9);
    optimizer.name = "muon";
    layout.emplace(model, num_ranks);
    homes.emplace(optimizer, *layout, below(num_ranks),
                  MuonHomes::Group{.size = num_ranks, .has_shards = true});
  }
  size_t below(size_t bound) { return random() % bound; }

  std::mt19937 random;
  ModelConfig model;
  size_t num_ranks = 1;
  OptimizerConfig optimizer;
  std::optional<Layout> layout;
  std::optional<MuonHomes> homes;
};

TEST_CASE("homes have equal work, but for the last weight that came to each") {
  for_random_cases(60, [](size_t seed) {
    CAPTURE(seed);
    const Drawn drawn(seed);
    const MuonHomes& homes = *drawn.homes;
    double least = std::numeric_limits<double>::infinity();
    size_t num_weights = 0, num_matrices = 0, expected = 0;
    for (size_t home = 0; home < homes.size(); ++home) {
      least = std::min(least, homes.flops_at(home));
      num_weights += homes.at(home).size();
      num_matrices += homes.matrices_at(home);
    }
    for (const HomedWeight& weight : homes.weights()) {
      expected += weight.parts[0].slice->matrix.count;
    }
    CHECK(num_weights == homes.weights().size());
    CHECK(num_matrices >= expected);  // parts of q, k and v may be matrices of their own
    for (size_t home = 0; home < homes.size(); ++home) {
      double load = 0, smallest = std::numeric_limits<double>::infinity();
      for (const HomedWeight* weight : homes.at(home)) {
        const double flops = muon_flops(drawn.optimizer, *weight->parts[0].slice);
        load += flops;
        smallest = std::min(smallest, flops);
      }
      CHECK(load == homes.flops_at(home));
      // A weight comes to the home with the least work, and the smallest comes last.
      if (load > 0) CHECK(load - smallest <= least);
    }
  });
}

TEST_CASE("a round has as many weights as its two limits allow, and no more") {
  for_random_cases(60, [](size_t seed) {
    CAPTURE(seed);
    const Drawn drawn(seed);
    const MuonHomes& homes = *drawn.homes;
    size_t most = 0;
    for (const HomedWeight& weight : homes.weights()) most = std::max(most, elements_of(weight));
    std::vector<size_t> next(homes.size());  // by home
    for (size_t round = 0; round < homes.num_rounds(); ++round) {
      std::vector<size_t> sent(homes.size()), at_home(homes.size());
      for (size_t home = 0; home < homes.size(); ++home) {
        for (const HomedWeight* weight : homes.in_round(home, round)) {
          REQUIRE(weight == homes.at(home).at(next[home]++));
          at_home[home] += elements_of(*weight);
          for (size_t rank = 0; rank < homes.size(); ++rank) {
            sent[rank] += weight->parts[rank].count;
          }
        }
      }
      for (size_t home = 0; home < homes.size(); ++home) {
        CHECK(at_home[home] <= most);
        CHECK(sent[home] <= 4 * most);
        if (next[home] == homes.at(home).size()) continue;
        const HomedWeight& waiting = *homes.at(home)[next[home]];
        bool fits = at_home[home] + elements_of(waiting) <= most;
        for (size_t rank = 0; rank < homes.size(); ++rank) {
          fits = fits && sent[rank] + waiting.parts[rank].count <= 4 * most;
        }
        CHECK_FALSE(fits);
      }
    }
    for (size_t home = 0; home < homes.size(); ++home) {
      CHECK(next[home] == homes.at(home).size());
    }
  });
}

}  // namespace
}  // namespace ladder::testing
