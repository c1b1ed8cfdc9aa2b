// Which ranks belong together, and what is counted under which name.
#include "common/comm/process_grid.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <vector>

#include "common/comm/ledger.h"

namespace ladder {
namespace {

constexpr Axis kAxes[] = {Axis::world, Axis::pipeline, Axis::data, Axis::tensor, Axis::embedding};

// The ranks of one group, by their number in it.
using Members = std::map<size_t, size_t>;

std::map<size_t, Members> groups_of(ProcessGrid grid, Axis axis) {
  std::map<size_t, Members> groups;
  for (grid.rank = 0; grid.rank < grid.world_size(); ++grid.rank) {
    const ProcessGrid::Group group = grid.group(axis);
    CHECK(groups[group.color].emplace(group.rank, grid.rank).second);  // nobody else has the place
  }
  return groups;
}

TEST_CASE("every axis shares out all ranks in groups of its size") {
  for (size_t pipeline : {1, 2, 3}) {
    for (size_t data : {1, 2, 3}) {
      for (size_t tensor : {1, 2, 4}) {
        const ProcessGrid grid = {pipeline, data, tensor};
        for (Axis axis : kAxes) {
          INFO(pipeline << " x " << data << " x " << tensor << ", " << name_of(axis));
          for (const auto& [color, members] : groups_of(grid, axis)) {
            const ProcessGrid one = {pipeline, data, tensor, members.begin()->second};
            CHECK(members.size() == one.group(axis).size);
            CHECK(members.rbegin()->first == members.size() - 1);
            const bool alone = axis == Axis::embedding && members.size() == 1;
            if (!alone) CHECK(members.size() == grid.size(axis));
          }
        }
      }
    }
  }
}

TEST_CASE("the groups of a grid of 3 stages x 2 replicas x 2 parts") {
  const ProcessGrid grid = {3, 2, 2};
  const auto members = [&](Axis axis) {
    std::set<std::vector<size_t>> all;
    for (const auto& [color, ranks] : groups_of(grid, axis)) {
      std::vector<size_t> in_order;
      for (const auto& [place, rank] : ranks) in_order.push_back(rank);
      all.insert(in_order);
    }
    return all;
  };
  using Groups = std::set<std::vector<size_t>>;
  CHECK(members(Axis::tensor) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}});
  CHECK(members(Axis::data) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}});
  CHECK(members(Axis::pipeline) == Groups{{0, 4, 8}, {1, 5, 9}, {2, 6, 10}, {3, 7, 11}});
  CHECK(members(Axis::embedding) == Groups{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4}, {5}, {6}, {7}});
  CHECK(members(Axis::world) == Groups{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}});
}

TEST_CASE("traffic is counted, and named, by axis") {
  Ledger ledger;
  const TrafficKey everybody = {Purpose::gradient, Collective::all_reduce};
  const TrafficKey tensor = {Purpose::gradient, Collective::all_reduce, Axis::tensor};
  ledger.add(everybody, {1, 10});
  ledger.add(tensor, {1, 100});
  ledger.add(tensor, {1, 1000});
  const Ledger::Entries expected = {{everybody, {1, 10}}, {tensor, {2, 1100}}};
  CHECK(ledger.entries() == expected);
  CHECK(name_of(everybody) == "gradient all_reduce");
  CHECK(name_of(tensor) == "tensor gradient all_reduce");
  CHECK(name_of(tensor, '.') == "tensor.gradient.all_reduce");
}

}  // namespace
}  // namespace ladder
