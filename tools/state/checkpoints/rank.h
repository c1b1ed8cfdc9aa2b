// What one rank of any layout owns of a model, and what it reads of a checkpoint: computed without
// starting it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/checkpoint/index.h"
#include "common/checkpoint/writer.h"
#include "common/schedule/rank_layout.h"

namespace ladder {

// The slices that rank grid.rank owns, of all kinds of tensors that `stored` has and in its dtypes.
// Their views have addresses but no memory.
struct OwnedSlices {
  // Throws UserError as rank_layout() does.
  OwnedSlices(const ModelConfig& model, const ProcessGrid& grid,
              const std::map<std::string, StoredTensor>& stored);
  OwnedSlices(const OwnedSlices&) = delete;  // slices point into the layout

  Layout layout;
  std::vector<NamedSlice> slices;
};

// Elements of a rank's shard that another rank has too, and writes to its file.
struct Copy {
  const Parameter* parameter;
  PlacedElements elements;
  size_t writer;
};

// Returns the copies that the rank has: what tensor-parallel ranks do not split, and the token
// embedding of the last pipeline stage. `layout` must outlive them.
std::vector<Copy> copies_of(const Layout& layout, const ProcessGrid& grid);

// Returns the names, dtypes and shapes of the tensors that a checkpoint of the model has, in fp32,
// without slices.
std::map<std::string, StoredTensor> stored_tensors_of(const ModelConfig& model);

// Says where elements of a tensor of this shape lie: "all", "rows 2 to 5", "elements 7 to 90", or
// "columns 4 to 7, 12 to 15" and which rows or elements of these.
std::string elements_text(const Shape& shape, const PlacedElements& elements);

// Says what the rank owns: each tensor with its place, and the bytes of each kind. Then the copies
// that it has, and who writes each.
std::string owned_text(const OwnedSlices& owned, const ProcessGrid& grid);

// Says what the rank reads of a checkpoint to have what it owns: files, file blocks and bytes.
std::string read_text(const OwnedSlices& owned, const CheckpointIndex& index);

}  // namespace ladder
