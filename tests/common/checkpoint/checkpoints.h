// Whole checkpoints for tests, as the ranks of any layout would write them, and what is in them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <vector>

#include "common/checkpoint/folder.h"
#include "common/checkpoint/reader.h"
#include "kernels/runtime/hash.h"
#include "tests/common/checkpoint/indexes.h"
#include "tests/common/io/test_files.h"

namespace ladder {

// An element of a tensor such as "param.wte.weight", for each another one. Every float dtype of 32
// bits or more has it exactly.
inline double value_of(const std::string& tensor, size_t element) {
  const uint64_t hash = hash_bytes(std::as_bytes(std::span(&element, 1)),
                                   hash_bytes(std::as_bytes(std::span(tensor)), 1));
  return static_cast<double>(static_cast<int64_t>(hash >> 41) - (1 << 22)) / 1024;
}

// The elements of a slice of the tensor.
inline std::vector<double> values_of(const std::string& tensor, const PlacedElements& elements) {
  std::vector<double> values;
  Parameter part;
  part.ranges = elements.ranges;
  for_ranges_in(part, elements.first, elements.first + elements.count,
                [&](size_t, size_t at, size_t count) {
                  for (size_t i = at; i < at + count; ++i) values.push_back(value_of(tensor, i));
                });
  return values;
}

// The state of one rank in host memory.
struct RankState {
  Layout layout;
  std::vector<std::vector<double>> buffers;  // of each kind, if it is fp64: one after the other
  std::vector<NamedSlice> slices;            // what it owns

  RankState(const ModelConfig& model, const ProcessGrid& grid, DType dtype)
      : layout(rank_layout(model, grid)) {
    slices = stored_by_adamw([&] {
      const size_t n = layout.num_elements();
      buffers.emplace_back(n);  // as many bytes as fp64 takes, or more
      const TensorView buffer(buffers.back().data(), dtype, DeviceType::cpu, {n});
      return owned_slices(layout, grid.group_rank(Axis::data), buffer);
    });
    for (const auto& [name, slice] : slices) {
      const std::vector<double> values = values_of(name, elements_of(slice));
      dispatch_float(dtype, [&]<class Element>(Element) {
        std::ranges::transform(values, slice.view.as<Element>(),
                               [](double value) { return static_cast<Element>(value); });
      });
    }
  }
  RankState(const RankState&) = delete;
};

// Writes the files of all ranks to `folder`, and the index.
inline void write_files(const std::string& folder, const CheckpointIndex& index, DType dtype) {
  ProcessGrid grid = index.layout;
  for (grid.rank = 0; grid.rank < grid.world_size(); ++grid.rank) {
    const RankState state(index.model, grid, dtype);
    write_rank_files(folder, grid.rank, state.slices,
                     [](const NamedSlice& part) { return part.slice.view; });
  }
  write_index(folder, index);
}

// Writes a checkpoint into a folder of checkpoints and returns its path.
inline std::string write_checkpoint(const std::string& folder, const ProcessGrid& layout,
                                    int64_t step = 50, const ModelConfig& model = kSmall,
                                    DType dtype = DType::fp32) {
  CheckpointFolder checkpoints(folder);
  write_files(checkpoints.begin(step), empty_index(model, layout, step), dtype);
  checkpoints.publish(step);
  return checkpoint_path(folder, step);
}

// Reads a slice of a tensor as doubles.
inline std::vector<double> read_values(CheckpointReader& reader, const std::string& tensor,
                                       const PlacedElements& elements) {
  std::vector<double> values(elements.count);
  reader.read(tensor, elements,
              TensorView(values.data(), DType::fp64, DeviceType::cpu, {elements.count}));
  return values;
}

}  // namespace ladder
