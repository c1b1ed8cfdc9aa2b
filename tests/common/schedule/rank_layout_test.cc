// What each rank of a grid holds: together all of the model, each element with one owner.
#include "common/schedule/rank_layout.h"

#include <map>

#include "common/model/slices.h"
#include "common/schedule/cut.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

constexpr ModelConfig kConfig = {
    .num_layers = 3, .num_heads = 4, .hidden = 8, .vocab_size = 11, .sequence_length = 5};

// How often each element of each tensor is owned by a rank of the grid.
std::map<std::string, std::vector<int>> owners(ProcessGrid grid) {
  std::map<std::string, std::vector<int>> counts;
  for (grid.rank = 0; grid.rank < grid.world_size(); ++grid.rank) {
    const Layout layout = rank_layout(kConfig, grid);
    const size_t n = layout.num_elements();
    const TensorView buffer(no_memory().allocate(n * 4), DType::fp32, DeviceType::cpu, {n});
    for (const Slice& slice : owned_slices(layout, grid.group_rank(Axis::data), buffer)) {
      std::vector<int>& of_tensor = counts[slice.parameter->name];
      of_tensor.resize(slice.parameter->full_shape.num_elements());
      for_ranges_in(*slice.parameter, slice.first, slice.first + slice.view.num_elements(),
                    [&](size_t, size_t at, size_t count) {
                      for (size_t i = at; i < at + count; ++i) ++of_tensor.at(i);
                    });
    }
  }
  return counts;
}

TEST_CASE("every element of the model has one owner in every grid") {
  const size_t pipeline = GENERATE(1, 2, 6), data = GENERATE(1, 3, 8), tensor = GENERATE(1, 2, 4);
  CAPTURE(pipeline, data, tensor);
  const auto counts = owners({.pipeline_size = pipeline, .data_size = data, .tensor_size = tensor});
  size_t num_elements = 0;
  for (const auto& [name, times] : counts) {
    CAPTURE(name);
    num_elements += times.size();
    CHECK(times == std::vector<int>(times.size(), 1));
  }
  CHECK(num_elements == describe(kConfig).num_parameters());
}

TEST_CASE("a rank holds the stage and the slice of its place in the grid") {
  const ProcessGrid grid = {.pipeline_size = 2, .data_size = 3, .tensor_size = 2, .rank = 9};
  const Layout layout = rank_layout(kConfig, grid);  // ((1 * 3) + 1) * 2 + 1
  const ModelPartition stage = cut_evenly(describe(kConfig), 2)[1];
  CHECK(layout.part().first == stage.first);
  CHECK(layout.part().end == stage.end);
  CHECK(layout.part().tensor_rank == 1);
  CHECK(layout.part().tensor_size == 2);
  CHECK(layout.world_size() == 3);
}

TEST_CASE("a layout that the model cannot have is refused") {
  const auto [grid, why] = GENERATE(table<ProcessGrid, std::string>({
      {{.tensor_size = 3}, "tensor=3: 4 heads and an inner layer of 32"},
      {{.tensor_size = 8}, "cannot be split among 8 ranks; 4 would do"},
      {{.pipeline_size = 7}, "pipeline=7: the model can be cut into at most 6 stages"},
      {{.context_size = 2}, "context=2: ranks of a context axis"},
      {{.data_size = 2, .tensor_size = 2, .rank = 4},
       "data=2,tensor=2: has ranks 0 to 3, no rank 4"},
  }));
  CHECK_THROWS_WITH(rank_layout(kConfig, grid), ContainsSubstring(why));
  CHECK_THROWS_AS(rank_layout(kConfig, grid), UserError);
  ModelConfig few_tokens = kConfig;
  few_tokens.vocab_size = 5;  // ceil(5 / 4) = 2 rows for each of three ranks, none for the last
  CHECK_THROWS_WITH(
      rank_layout(few_tokens, {.tensor_size = 4}),
      ContainsSubstring("vocabulary of 5 tokens cannot be split among 4 ranks; 2 would do"));
}

}  // namespace
}  // namespace ladder
