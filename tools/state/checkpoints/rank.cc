#include "tools/state/checkpoints/rank.h"

#include <algorithm>
#include <set>

#include "common/checkpoint/overlap.h"
#include "common/model/slices.h"
#include "common/optimizer/rule.h"
#include "common/pipeline/report.h"
#include "common/train/report/report.h"
#include "tools/state/checkpoints/consecutive.h"

namespace ladder {
namespace {

std::string_view kind_of(std::string_view tensor) { return tensor.substr(0, tensor.find('.')); }

// Writes the numbers from `first` to `last` as "rows 2 to 5" or "row 2".
std::string range_text(const char* singular, size_t first, size_t last) {
  return first == last ? concat(singular, " ", first) : concat(singular, "s ", first, " to ", last);
}

// Says which of `count` rows of `width` elements the elements [first, first + n) are.
std::string part_text(size_t first, size_t n, size_t width) {
  const bool whole_rows = width > 1 && first % width == 0 && n % width == 0;
  return whole_rows ? range_text("row", first / width, (first + n) / width - 1)
                    : range_text("element", first, first + n - 1);
}

// Returns what the runs have of each row, as in "columns 4 to 7, 12 to 15".
std::string columns_text(const Ranges& ranges, size_t row, const char* what) {
  std::string text;
  for (size_t begin = ranges.first; begin < row; begin += ranges.stride) {
    text += concat(text.empty() ? what : ",", " ", begin, " to ", begin + ranges.length - 1);
  }
  return text;
}

// File blocks by number, as in "file blocks 0, 2 to 4".
std::string file_blocks_text(const std::set<size_t>& file_blocks) {
  std::string text = file_blocks.size() == 1 ? "file block" : "file blocks";
  const char* separator = " ";
  for (const auto& [first, last] : consecutive(file_blocks)) {
    text += concat(separator, first);
    if (last > first) text += concat(" to ", last);
    separator = ", ";
  }
  return text;
}

// Returns the kinds of tensors in the order in which ranks write them.
std::vector<std::string_view> kinds_in(const std::map<std::string, StoredTensor>& stored) {
  std::vector<std::string_view> kinds(std::begin(kStoredKinds), std::end(kStoredKinds));
  for (const auto& [name, tensor] : stored) {
    if (std::ranges::count(kinds, kind_of(name)) == 0) kinds.push_back(kind_of(name));
  }
  return kinds;
}

// What is read from one file.
struct FileReads {
  size_t num_file_blocks = 0, bytes = 0;
  std::string lines;  // for each tensor its file blocks
};

// Adds what reading one of the rank's slices takes, by file.
void add_reads(std::map<size_t, FileReads>& files, const std::string& name,
               const StoredTensor& tensor, const PlacedElements& wanted) {
  std::map<const StoredSlice*, std::set<size_t>> file_blocks;
  for (const auto& [slice, file_block, part] : parts_to_read(tensor, wanted)) {
    file_blocks[slice].insert(file_block);
  }
  const size_t file_block_size = file_block_elements(tensor.dtype);
  for (const auto& [slice, numbers] : file_blocks) {
    FileReads& file = files[slice->rank];
    file.num_file_blocks += numbers.size();
    for (size_t file_block : numbers) {
      const size_t elements =
          std::min(file_block_size, slice->elements.count - file_block * file_block_size);
      file.bytes += elements * size_of(tensor.dtype);
    }
    file.lines += concat("    ", name, ": ", file_blocks_text(numbers), " of ",
                         slice->checksums.size(), "\n");
  }
}

}  // namespace

OwnedSlices::OwnedSlices(const ModelConfig& model, const ProcessGrid& grid,
                         const std::map<std::string, StoredTensor>& stored)
    : layout(rank_layout(model, grid)) {
  const size_t n = layout.num_elements(), bytes = n * size_of(DType::fp64);
  for (std::string_view kind : kinds_in(stored)) {
    const TensorView buffer(no_memory().allocate(bytes), DType::fp64, DeviceType::cpu, {n});
    for (Slice slice : owned_slices(layout, grid.group_rank(Axis::data), buffer)) {
      const std::string name = concat(kind, ".", slice.parameter->name);
      const auto tensor = stored.find(name);
      if (tensor == stored.end()) continue;  // not every tensor has this kind
      slice.view =
          TensorView(slice.view.data(), tensor->second.dtype, DeviceType::cpu, slice.view.shape());
      slices.push_back({name, slice});
    }
  }
}

std::vector<Copy> copies_of(const Layout& layout, const ProcessGrid& grid) {
  // Of the tensor-parallel ranks that hold the same, the first one writes it, and the first stage
  // what two have.
  const auto writer = [&](const Unit& unit, const Parameter& parameter) {
    ProcessGrid at = grid;
    if (unit.is_copy) at.rank = at.rank_at(Axis::pipeline, 0);
    const size_t tensor_rank = at.group_rank(Axis::tensor);
    const size_t copies = parameter.split ? parameter.copies : at.tensor_size;
    at.rank = at.rank_at(Axis::tensor, tensor_rank - tensor_rank % copies);
    return at.rank;
  };
  std::vector<Copy> copies;
  for (size_t i = 0; i < layout.units().size(); ++i) {
    for (const UnitPart part : kUnitParts) {
      const size_t begin = shard_begin(layout, i, grid.group_rank(Axis::data), part);
      for_parameters_in(layout, begin, begin + shard_elements(layout, i, part),
                        [&](const Parameter& parameter, size_t at, size_t from, size_t to) {
                          if (parameter.counted) return;
                          copies.push_back({&parameter,
                                            {parameter.ranges, from - at, to - from},
                                            writer(layout.unit(i), parameter)});
                        });
    }
  }
  return copies;
}

std::map<std::string, StoredTensor> stored_tensors_of(const ModelConfig& model) {
  std::map<std::string, StoredTensor> tensors;
  for (const UnitSpec& unit : describe(model).units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      for (std::string_view kind : kStoredKinds) {
        if (!keeps(OptimizerConfig(), kind, parameter)) continue;
        tensors[concat(kind, ".", parameter.name)] = {};
      }
    }
  }
  return tensors;
}

std::string elements_text(const Shape& shape, const PlacedElements& elements) {
  const auto& [ranges, first, count] = elements;
  const bool is_vector = shape.num_dims() == 1;
  const size_t total = shape.num_elements(), row = is_vector ? total : shape[1];
  const bool lie_together = ranges.length == ranges.stride || ranges.stride == total;
  if (lie_together) {
    return count == total ? "all" : part_text(ranges.first + first, count, is_vector ? 1 : row);
  }
  const std::string ranges_text = columns_text(ranges, row, is_vector ? "elements" : "columns");
  const size_t held = row / ranges.stride * ranges.length;  // elements of each row
  if (count == total / row * held) return ranges_text;
  return concat(ranges_text, ", ", part_text(first, count, is_vector ? 1 : held), " of these");
}

namespace {

// A line for a tensor, or for the rank's part of it.
std::string tensor_line(const Parameter& parameter, const PlacedElements& elements) {
  return format("    %-24s %-14s %s", parameter.name.c_str(),
                to_string(parameter.full_shape).c_str(),
                elements_text(parameter.full_shape, elements).c_str());
}

}  // namespace

std::string owned_text(const OwnedSlices& owned, const ProcessGrid& grid) {
  std::string text = concat("rank ", grid.rank, " of ", layout_text(grid), ": ");
  for (Axis axis : {Axis::data, Axis::pipeline, Axis::tensor}) {
    text += concat(axis == Axis::data ? "" : ", ", name_of(axis), " ", grid.group_rank(axis),
                   " of ", grid.size(axis));
  }
  text += concat("; holds ", units_text(owned.layout), "\n");
  std::map<std::string_view, size_t> bytes;  // by kind
  std::string lines;
  for (const auto& [name, slice] : owned.slices) {
    bytes[kind_of(name)] += slice.view.num_bytes();
    if (kind_of(name) != kind_of(owned.slices.front().name)) continue;  // all kinds are alike
    lines += tensor_line(*slice.parameter, elements_of(slice)) + "\n";
  }
  text += "owns";
  for (const auto& [kind, size] : bytes) {
    text += concat(kind == bytes.begin()->first ? " " : ", ", kind, " ", human_bytes(size));
  }
  text += concat(bytes.empty() ? " nothing\n" : ", of each:\n", lines);
  lines.clear();
  for (const auto& [parameter, elements, writer] : copies_of(owned.layout, grid)) {
    lines += concat(tensor_line(*parameter, elements), ", which rank ", writer, " writes\n");
  }
  return concat(text, lines.empty() ? "" : "has copies:\n", lines);
}

std::string read_text(const OwnedSlices& owned, const CheckpointIndex& index) {
  std::map<size_t, FileReads> files;
  size_t needed = 0;
  for (const auto& [name, slice] : owned.slices) {
    needed += slice.view.num_bytes();
    add_reads(files, name, index.tensors.at(name), elements_of(slice));
  }
  size_t bytes = 0, num_file_blocks = 0;
  std::string lines;
  for (const auto& [rank, file] : files) {
    bytes += file.bytes;
    num_file_blocks += file.num_file_blocks;
    lines += concat("  ", rank_file_name(rank), ": ", counted(file.num_file_blocks, "file block"),
                    ", ", human_bytes(file.bytes), "\n", file.lines);
  }
  return concat("reads ", counted(num_file_blocks, "file block"), " of ",
                counted(files.size(), "file"), ", ", human_bytes(bytes), " for ",
                human_bytes(needed), "\n", lines);
}

}  // namespace ladder
