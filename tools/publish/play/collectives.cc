#include <algorithm>
#include <cmath>
#include <limits>

#include "common/comm/cost_model.h"
#include "kernels/runtime/check.h"
#include "lessons/00_collectives/plan.h"
#include "lessons/00_collectives/show.h"
#include "tools/publish/play/exports.h"

namespace ladder {
namespace {

Collective collective_named(const std::string& name) {
  size_t i = 0;
  while (name_of(static_cast<Collective>(i)) != name) ++i;
  return static_cast<Collective>(i);
}

Algorithm algorithm_named(const std::string& name) {
  return *std::ranges::find(kAlgorithms, name, [](Algorithm a) { return name_of(a); });
}

// What a plan costs, counted exchange by exchange.
struct PlanCost {
  size_t rounds = 0;
  std::vector<size_t> sent;  // elements, by rank
  size_t longest = 0;        // elements: the longest message of each round, added up
};

PlanCost count(const Plan& plan) {
  PlanCost cost = {.sent = std::vector<size_t>(plan.size())};
  std::vector<size_t> next(plan.size());
  for (const Round& round : rounds_of(plan)) {
    size_t longest = 0;
    for (size_t r : round) {
      const Exchange& exchange = plan[r][next[r]++];
      const size_t elements = exchange.send ? exchange.send->range.size() : 0;
      cost.sent[r] += elements;
      longest = std::max(longest, elements);
    }
    cost.longest += longest;
    ++cost.rounds;
  }
  return cost;
}

// Each rank's value is a bit of its own, so a sum says whose values are in it. Elements that the
// collective does not read are missing.
std::vector<std::vector<double>> first_vectors(Collective collective, size_t num_ranks) {
  std::vector<std::vector<double>> vectors;
  for (size_t r = 0; r < num_ranks; ++r) {
    vectors.emplace_back(num_ranks, std::ldexp(1, static_cast<int>(r)));
    for (size_t i = 0; i < num_ranks; ++i) {
      const bool is_missing = (collective == Collective::broadcast && r > 0) ||
                              (collective == Collective::all_gather && i != r);
      if (is_missing) vectors[r][i] = std::numeric_limits<double>::quiet_NaN();
    }
  }
  return vectors;
}

// A message is [from, to, first part, part after the last, whether it is added].
Json exchanges_json(std::istream& words) {
  std::string algorithm, name;
  size_t num_ranks = 0, num_done = 0;
  words >> algorithm >> name >> num_ranks >> num_done;
  const Collective collective = collective_named(name);
  // An element for each part.
  const Plan plan = make_plan(algorithm_named(algorithm), collective, num_ranks, num_ranks);
  const std::vector<Round> rounds = rounds_of(plan);
  std::vector<std::vector<double>> vectors = first_vectors(collective, num_ranks);
  std::vector<std::vector<double>> after = vectors;
  std::vector<std::vector<size_t>> messages;
  std::vector<size_t> next(num_ranks);
  run_plan(plan, vectors, [&](size_t round) {
    if (round < num_done) after = vectors;
    for (size_t r : rounds[round]) {
      const Exchange& exchange = plan[r][next[r]++];
      if (round + 1 != num_done || !exchange.receive) continue;
      const auto& [peer, range] = *exchange.receive;
      messages.push_back({peer, r, range.begin, range.end, exchange.adds ? 1U : 0U});
    }
  });
  return json(
      {{"rounds", json(rounds.size())}, {"messages", json(messages)}, {"has", json(after)}});
}

Json words_json(std::istream& words) {
  std::string algorithm, name;
  size_t num_ranks = 0;
  words >> algorithm >> name >> num_ranks;
  return json(show_plan(algorithm_named(algorithm), collective_named(name), num_ranks));
}

// Returns what an algorithm costs for n bytes, and the line of its time against n.
Json cost_json(Algorithm algorithm, Collective collective, size_t num_ranks, size_t bytes,
               const LinearCost& message) {
  constexpr size_t kNumber = 4, kMany = size_t{1} << 28;  // bytes
  const auto cost_of = [&](size_t vector_bytes) {
    size_t elements = vector_bytes / kNumber;
    if (collective == Collective::all_to_all) elements -= elements % num_ranks;
    return count(make_plan(algorithm, collective, num_ranks, elements));
  };
  const PlanCost cost = cost_of(bytes);
  const auto rounds = static_cast<double>(cost.rounds);
  // Of a vector so long that it does not matter whether the ranks divide it.
  const double share = static_cast<double>(cost_of(kMany).longest * kNumber) / kMany;
  return json({{"name", json(name_of(algorithm))},
               {"rounds", json(cost.rounds)},
               {"most_sent", json(std::ranges::max(cost.sent) * kNumber)},
               {"seconds", json(rounds * message.alpha +
                                message.beta * static_cast<double>(cost.longest * kNumber))},
               {"alpha", json(rounds * message.alpha)},
               {"beta", json(share * message.beta)}});
}

// Returns the costs of all algorithms that do the collective on so many ranks.
Json costs_json(std::istream& words) {
  std::string name;
  size_t num_ranks = 0, bytes = 0;
  LinearCost message;
  words >> name >> num_ranks >> bytes >> message.alpha >> message.beta;
  const Collective collective = collective_named(name);
  std::vector<Json> costs;
  for (const Algorithm algorithm : kAlgorithms) {
    try {
      check_supported(algorithm, collective, num_ranks);
    } catch (const UserError& why) {
      costs.push_back(json({{"name", json(name_of(algorithm))}, {"why_not", json(why.what())}}));
      continue;
    }
    costs.push_back(cost_json(algorithm, collective, num_ranks, bytes, message));
  }
  return json(costs);
}

}  // namespace

Json collective_request(const std::string& what, std::istream& words) {
  if (what == "exchanges") return exchanges_json(words);
  return what == "words" ? words_json(words) : costs_json(words);
}

}  // namespace ladder
