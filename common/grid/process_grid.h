// The grid in which the ranks of a run are arranged.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

// The ranks between which something is communicated: all of them (world), those that differ only in
// their number on one axis of the grid, or the first and the last pipeline stage, which both have a
// copy of the token embedding (embedding). The data axis may be divided once more: expert_size
// consecutive ranks of it hold different experts (expert), and ranks with the same place in their
// groups hold the same ones (expert_data). In the same way shard_size consecutive ranks of it may
// shard one copy of the model (shard), and ranks with the same place in their groups hold the same
// shard of other copies (replica). Ranks that differ only in their places on the data and the
// context axis hold the same part of the model (data_context). The ranks of one pipeline stage hold
// the same layers, or slices and shards of them (stage).
enum class Axis {
  world,
  pipeline,
  data,
  context,
  tensor,
  embedding,
  expert,
  expert_data,
  shard,
  replica,
  data_context,
  stage
};

std::string_view name_of(Axis axis);

// The axes of the grid, the slowest first. Tensor-parallel ranks have consecutive numbers, because
// they communicate most and consecutive ranks are closest.
inline constexpr std::array kGridAxes = {Axis::pipeline, Axis::data, Axis::context, Axis::tensor};

// The sizes of the axes, and this rank's place:
//   rank = ((pipeline * data_size + data) * context_size + context) * tensor_size + tensor
struct ProcessGrid {
  size_t pipeline_size = 1, data_size = 1, context_size = 1, tensor_size = 1;
  size_t rank = 0;
  size_t expert_size = 1;  // divides data_size
  size_t shard_size = 0;   // divides data_size; 0: the data axis has no groups that shard
  // How many more groups the pipeline has, for schedules whose messages go both ways
  // (common/schedule/schedule.h, link_of).
  size_t pipeline_links = 0;

  size_t world_size() const;
  // Returns the number of ranks in a group along the axis.
  size_t size(Axis axis) const;
  // Returns the axis along which ranks hold the same part of the model, experts and shards aside,
  // and sum its gradients: data, or data_context if there is a context axis.
  Axis replicas() const { return context_size == 1 ? Axis::data : Axis::data_context; }
  // Returns this rank's number in its group along the axis. REQUIRES: neither world nor embedding.
  size_t group_rank(Axis axis) const { return rank / stride(axis) % size(axis); }
  // Returns the rank that differs on this axis alone. REQUIRES: one of kGridAxes, and
  // `other` < size(axis).
  size_t rank_at(Axis axis, size_t other) const {
    return rank + other * stride(axis) - group_rank(axis) * stride(axis);
  }
  // The group along an axis that this rank belongs to. Ranks with the same color form a group, and
  // `rank` is this rank's number in it. On the axis `embedding` a stage in the middle is a group of
  // one.
  struct Group {
    size_t color, rank, size;
  };
  Group group(Axis axis) const;
  // Returns the ranks of that group, in their order in it.
  std::vector<size_t> ranks_of_group(Axis axis) const;

 private:
  // Returns the difference of the numbers of two ranks that are neighbours on the axis.
  size_t stride(Axis axis) const;
};

// Writes a grid as text, as in "data=2,pipeline=2,tensor=2". Axes of one rank are left out; a grid
// of one rank is "data=1".
std::string layout_text(const ProcessGrid& grid);
// Reads such a text, with the axes in any order. An axis that is not named has one rank; the rank
// of the result is 0. Throws a UserError that begins with the text if an axis is unknown or named
// twice, if its ranks are no whole number from 1, or if there are more than kMostRanks in all.
ProcessGrid parse_layout(const std::string& text);

// The most ranks that a layout may have, far more than anybody has run.
inline constexpr size_t kMostRanks = 1'000'000;

}  // namespace ladder
