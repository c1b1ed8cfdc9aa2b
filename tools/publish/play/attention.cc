#include "lessons/14_context_parallel/slices.h"
#include "tools/publish/play/exports.h"

namespace ladder {
namespace {

// A tile is [owner of the keys, first query, queries, keys, whether it is causal, pairs].
Json tile_json(size_t owner, const ScoreTile& tile) {
  return json(std::vector<size_t>{owner, tile.first_query, tile.num_queries, tile.num_keys,
                                  tile.causal ? 1U : 0U, tile.num_pairs()});
}

}  // namespace

Json attention_request(std::istream& words) {
  std::string slicing;
  size_t num_tokens = 0, n = 0;
  words >> slicing >> num_tokens >> n;
  const SlicePlan plan(slicing == "zigzag" ? Slicing::zigzag : Slicing::contiguous, num_tokens, n);
  std::vector<std::vector<size_t>> positions;
  std::vector<size_t> pairs;
  std::vector<std::vector<Json>> rounds(n);  // by round and rank
  for (size_t rank = 0; rank < n; ++rank) {
    const std::vector<int32_t> own = plan.positions(rank);
    positions.emplace_back(own.begin(), own.end());
    pairs.push_back(plan.num_pairs(rank));
    for (size_t round = 0; round < n; ++round) {
      const size_t owner = (rank + n - round) % n;  // the rank whose keys are here (ring.h)
      const std::optional<ScoreTile> tile = plan.tile(rank, owner);
      rounds[round].push_back(tile ? tile_json(owner, *tile) : Json{"null"});
    }
  }
  return json({{"positions", json(positions)},
               {"pairs", json(pairs)},
               {"critical", json(plan.pairs_on_critical_path())},
               {"rounds", json(rounds)}});
}

}  // namespace ladder
