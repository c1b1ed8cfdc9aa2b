// Which ranks belong together.
#include "common/grid/process_grid.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

constexpr Axis kAxes[] = {Axis::world,  Axis::pipeline,  Axis::data,         Axis::context,
                          Axis::tensor, Axis::embedding, Axis::data_context, Axis::stage};

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
      for (const auto& [context, tensor] :
           std::vector<std::pair<size_t, size_t>>{{1, 1}, {1, 2}, {1, 4}, {2, 1}, {3, 2}}) {
        const ProcessGrid grid = {pipeline, data, context, tensor};
        for (Axis axis : kAxes) {
          INFO(pipeline << " x " << data << " x " << context << " x " << tensor << ", "
                        << name_of(axis));
          for (const auto& [color, members] : groups_of(grid, axis)) {
            const ProcessGrid one = {.pipeline_size = pipeline,
                                     .data_size = data,
                                     .context_size = context,
                                     .tensor_size = tensor,
                                     .rank = members.begin()->second};
            CHECK(members.size() == one.group(axis).size);
            std::vector<size_t> in_order;
            for (const auto& [place, rank] : members) in_order.push_back(rank);
            CHECK(one.ranks_of_group(axis) == in_order);
            if (std::ranges::find(kGridAxes, axis) != kGridAxes.end()) {
              for (const auto& [place, rank] : members) CHECK(one.rank_at(axis, place) == rank);
            }
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
  const ProcessGrid grid = {.pipeline_size = 3, .data_size = 2, .tensor_size = 2};
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

TEST_CASE("a rank's number is its places, tensor fastest, then context, data and pipeline") {
  ProcessGrid grid = {.pipeline_size = 2, .data_size = 3, .context_size = 2, .tensor_size = 4};
  REQUIRE(grid.world_size() == 48);
  for (grid.rank = 0; grid.rank < 48; ++grid.rank) {
    const size_t outer = grid.group_rank(Axis::pipeline) * 3 + grid.group_rank(Axis::data);
    CHECK((outer * 2 + grid.group_rank(Axis::context)) * 4 + grid.group_rank(Axis::tensor) ==
          grid.rank);
  }
}

TEST_CASE("a layout is written by its axes") {
  CHECK(layout_text({}) == "data=1");
  CHECK(layout_text({.data_size = 4}) == "data=4");
  CHECK(layout_text({.pipeline_size = 2, .data_size = 8, .tensor_size = 4}) ==
        "data=8,pipeline=2,tensor=4");
  CHECK(layout_text({.context_size = 2, .tensor_size = 4}) == "context=2,tensor=4");
}

TEST_CASE("a layout is read as it is written, and in any order of its axes") {
  for (size_t pipeline : {1, 2, 12}) {
    for (size_t data : {1, 8}) {
      for (size_t tensor : {1, 3}) {
        for (size_t context : {1, 2}) {
          const std::string text = layout_text({pipeline, data, context, tensor});
          CHECK(layout_text(parse_layout(text)) == text);
        }
      }
    }
  }
  const ProcessGrid grid = parse_layout("tensor=2,data=8,pipeline=4,context=1");
  CHECK(layout_text(grid) == "data=8,pipeline=4,tensor=2");
  CHECK((grid.rank == 0 && grid.context_size == 1));
  CHECK(parse_layout("data=1000000").world_size() == kMostRanks);
}

TEST_CASE("a layout that is none is refused in one line that says why") {
  const auto [text, why] = GENERATE(table<std::string, std::string>({
      {"", "'' is not AXIS=RANKS"},
      {"8", "'8' is not AXIS=RANKS with the axis data, pipeline, context or tensor"},
      {"data", "'data' is not AXIS=RANKS"},
      {"data=2,", "'' is not AXIS=RANKS"},
      {",data=2", "'' is not AXIS=RANKS"},
      {"data=2;tensor=2", "data=2;tensor=2 is not a whole number"},
      {"experts=2", "'experts=2' is not AXIS=RANKS"},
      {"Data=2", "'Data=2' is not AXIS=RANKS"},
      {"data=2,tensor=2,data=2", "data is there twice"},
      {"data=1,data=1", "data is there twice"},
      {"data=0", "data=0 is not a whole number from 1"},
      {"data=", "data= is not a whole number from 1"},
      {"data=-1", "data=-1 is not a whole number from 1"},
      {"data=02", "data=02 is not a whole number from 1"},
      {"data=2.5", "data=2.5 is not a whole number from 1"},
      {"data=99999999999999999999", "is not a whole number from 1"},
      {"data=1000001", "at most 1000000 ranks in all"},
      {"data=1001,tensor=1000", "tensor=1000 is not a whole number from 1"},
  }));
  CAPTURE(text);
  CHECK_THROWS_WITH(parse_layout(text), StartsWith(text + ": ") && ContainsSubstring(why));
  CHECK_THROWS_AS(parse_layout(text), UserError);
}

TEST_CASE("ranks that hold the same part of the model: the data and the context axis together") {
  using Ranks = std::vector<size_t>;
  ProcessGrid grid = {.pipeline_size = 2, .data_size = 2, .context_size = 3, .tensor_size = 2};
  grid.rank = 15;  // pipeline 1, data 0, context 1, tensor 1
  CHECK(grid.replicas() == Axis::data_context);
  CHECK((grid.size(Axis::data_context) == 6 && grid.group_rank(Axis::data_context) == 1));
  CHECK(grid.ranks_of_group(Axis::data_context) == Ranks{13, 15, 17, 19, 21, 23});
  CHECK(grid.ranks_of_group(Axis::context) == Ranks{13, 15, 17});
  grid.context_size = 1;
  CHECK(grid.replicas() == Axis::data);
}

TEST_CASE("experts divide the data axis: consecutive ranks of it hold different ones") {
  using Ranks = std::vector<size_t>;
  ProcessGrid grid = {.data_size = 4, .tensor_size = 2, .expert_size = 2};
  CHECK(grid.world_size() == 8);
  CHECK((grid.size(Axis::expert) == 2 && grid.size(Axis::expert_data) == 2));
  grid.rank = 6;  // data 3, tensor 0
  CHECK((grid.group_rank(Axis::expert) == 1 && grid.group_rank(Axis::expert_data) == 1));
  CHECK(grid.ranks_of_group(Axis::expert) == Ranks{4, 6});
  CHECK(grid.ranks_of_group(Axis::expert_data) == Ranks{2, 6});
  CHECK(grid.ranks_of_group(Axis::data) == Ranks{0, 2, 4, 6});
  grid.rank = 1;
  CHECK(grid.ranks_of_group(Axis::expert) == Ranks{1, 3});
  CHECK(grid.ranks_of_group(Axis::expert_data) == Ranks{1, 5});
}

}  // namespace
}  // namespace ladder
