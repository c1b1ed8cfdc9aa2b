#include "common/grid/process_grid.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// In the order in which layouts are written.
constexpr std::array kWrittenAxes = {Axis::data, Axis::pipeline, Axis::context, Axis::tensor};

// Returns the member that has the size of an axis of this name, or null if there is no such axis.
size_t* size_named(ProcessGrid& grid, std::string_view name) {
  if (name == "data") return &grid.data_size;
  if (name == "pipeline") return &grid.pipeline_size;
  if (name == "context") return &grid.context_size;
  if (name == "tensor") return &grid.tensor_size;
  return nullptr;
}

// Returns the whole number from 1 to `most` that `text` is, or nothing.
std::optional<size_t> parse_ranks(std::string_view text, size_t most) {
  size_t ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && text[0] != '0' && ranks <= most ? std::optional(ranks) : std::nullopt;
}

}  // namespace

std::string_view name_of(Axis axis) {
  switch (axis) {
    case Axis::world:
      return "world";
    case Axis::pipeline:
      return "pipeline";
    case Axis::data:
      return "data";
    case Axis::context:
      return "context";
    case Axis::tensor:
      return "tensor";
    case Axis::embedding:
      return "embedding";
    case Axis::expert:
      return "expert";
    case Axis::expert_data:
      return "expert_data";
    case Axis::shard:
      return "shard";
    case Axis::replica:
      return "replica";
    case Axis::data_context:
      return "data_context";
    case Axis::stage:
      return "stage";
  }
  return "?";
}

size_t ProcessGrid::world_size() const {
  size_t ranks = 1;
  for (Axis axis : kGridAxes) ranks *= size(axis);
  return ranks;
}

size_t ProcessGrid::size(Axis axis) const {
  switch (axis) {
    case Axis::world:
      return world_size();
    case Axis::pipeline:
      return pipeline_size;
    case Axis::data:
      return data_size;
    case Axis::context:
      return context_size;
    case Axis::tensor:
      return tensor_size;
    case Axis::embedding:
      return std::min<size_t>(pipeline_size, 2);
    case Axis::expert:
      return expert_size;
    case Axis::expert_data:
      return data_size / expert_size;
    case Axis::shard:
      return std::max<size_t>(shard_size, 1);
    case Axis::replica:
      return shard_size == 0 ? 1 : data_size / shard_size;
    case Axis::data_context:
      return data_size * context_size;
    case Axis::stage:
      return data_size * context_size * tensor_size;
  }
  return 1;
}

size_t ProcessGrid::stride(Axis axis) const {
  if (axis == Axis::stage) return 1;
  if (axis == Axis::data_context) return stride(Axis::context);
  if (axis == Axis::expert || axis == Axis::shard) return stride(Axis::data);
  if (axis == Axis::expert_data) return stride(Axis::data) * expert_size;
  if (axis == Axis::replica) return stride(Axis::data) * size(Axis::shard);
  size_t ranks = 1;  // the product of the sizes of all faster axes
  for (size_t i = kGridAxes.size(); kGridAxes[--i] != axis;) ranks *= size(kGridAxes[i]);
  return ranks;
}

ProcessGrid::Group ProcessGrid::group(Axis axis) const {
  if (axis == Axis::world) return {0, rank, world_size()};
  if (axis == Axis::embedding) {
    const Group stages = group(Axis::pipeline);
    const bool is_last = stages.rank + 1 == stages.size;
    const bool is_middle = stages.rank != 0 && !is_last;
    if (stages.size == 1 || is_middle) return {rank, 0, 1};
    return {stages.color, size_t{is_last}, 2};
  }
  // The color is the rank's number without the digit of this axis.
  const size_t faster = stride(axis), slower = faster * size(axis);
  return {rank / slower * faster + rank % faster, group_rank(axis), size(axis)};
}

std::vector<size_t> ProcessGrid::ranks_of_group(Axis axis) const {
  const size_t color = group(axis).color;
  std::vector<size_t> ranks;
  ProcessGrid other = *this;
  for (other.rank = 0; other.rank < world_size(); ++other.rank) {
    if (other.group(axis).color == color) ranks.push_back(other.rank);
  }
  return ranks;
}

std::string layout_text(const ProcessGrid& grid) {
  std::string text;
  for (Axis axis : kWrittenAxes) {
    if (grid.size(axis) == 1) continue;
    text += concat(text.empty() ? "" : ",", name_of(axis), "=", grid.size(axis));
  }
  return text.empty() ? "data=1" : text;
}

ProcessGrid parse_layout(const std::string& text) {
  const auto refuse = [&](const auto&... why) { throw UserError(concat(text, ": ", why...)); };
  ProcessGrid grid;
  std::set<std::string_view> named;
  for (std::string_view rest = text;;) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const std::string_view axis = item.substr(0, item.find('='));
    size_t* const size = size_named(grid, axis);
    if (size == nullptr || axis.size() == item.size()) {
      refuse("'", item, "' is not AXIS=RANKS with the axis data, pipeline, context or tensor, as ",
             "in data=8,pipeline=4,tensor=2");
    }
    if (!named.insert(axis).second) refuse(axis, " is there twice");
    const std::string_view ranks = item.substr(axis.size() + 1);
    const std::optional<size_t> number = parse_ranks(ranks, kMostRanks / grid.world_size());
    if (!number) {
      refuse(axis, "=", ranks, " is not a whole number from 1, without leading zeros, that makes ",
             "at most ", kMostRanks, " ranks in all");
    }
    *size = *number;
    if (item.size() == rest.size()) return grid;
    rest.remove_prefix(item.size() + 1);
  }
}

}  // namespace ladder
