// How the ranks of a run are arranged.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace ladder {

// Between which ranks something travels: all of them, those that differ only in their place on one
// axis, or the first and the last pipeline stage, which both have a copy of the token embedding.
enum class Axis { world, pipeline, data, context, tensor, embedding };

std::string_view name_of(Axis axis);

// The axes along which ranks are arranged, the slowest first: the numbers of tensor-parallel ranks
// follow each other, so that those who talk most sit closest.
inline constexpr std::array kGridAxes = {Axis::pipeline, Axis::data, Axis::context, Axis::tensor};

// Ranks along named axes: rank = ((pipeline * data_size + data) * context_size + context) *
// tensor_size + tensor.
struct ProcessGrid {
  size_t pipeline_size = 1, data_size = 1, context_size = 1, tensor_size = 1;
  size_t rank = 0;

  size_t world_size() const;
  // Ranks of a group along the axis.
  size_t size(Axis axis) const;
  // This rank's place on one of kGridAxes.
  size_t place(Axis axis) const { return rank / stride(axis) % size(axis); }
  // The group along the axis that this rank belongs to: the ranks with the same color, and its
  // number among them. On the axis `embedding` a stage in the middle is a group of its own.
  struct Group {
    size_t color, rank, size;
  };
  Group group(Axis axis) const;

 private:
  // By how much the rank's number grows from one place on the axis to the next.
  size_t stride(Axis axis) const;
};

// How a layout is written: "data=2,pipeline=2,tensor=2". Axes of one rank are left out; "data=1"
// where there is no other.
std::string layout_text(const ProcessGrid& grid);

}  // namespace ladder
