// Writes checkpoints: each rank its own file, and rank 0 the index that makes them one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/index.h"
#include "common/model/slices.h"

namespace ladder {

// A slice to be written, by the name that it has in the checkpoint, such as "param.wte.weight".
struct NamedSlice {
  std::string name;
  Slice slice;
};

// Returns where the slice's elements are.
inline PlacedElements elements_of(const Slice& slice) {
  return {slice.parameter->ranges, slice.first, slice.view.num_elements()};
}

// Returns the slices of all kinds that a checkpoint has; `slices_of` gives those of one kind.
std::vector<NamedSlice> stored_slices(
    const std::function<std::vector<Slice>(std::string_view kind)>& slices_of);

// A function that returns elements of a slice in host memory, where they stay until the next call.
// `part` is some of the elements of one of the slices, wherever its view is.
using ToHost = std::function<ConstTensorView(const NamedSlice& part)>;

// Writes the slices of a rank to rank_NNNN.safetensors in `folder` and brings them to the disk
// (fsync); then it writes rank_NNNN.json, which says that the file is complete, and what an index
// needs to know of it. The elements go file block by file block through `to_host`. Throws Error if
// the disk is full.
void write_rank_files(const std::string& folder, size_t rank, std::span<const NamedSlice> slices,
                      const ToHost& to_host);

// Returns whether the files of all ranks are complete.
bool has_all_rank_files(const std::string& folder, size_t num_ranks);

// Puts the ranks' parts together, writes checkpoint.json to the folder, and removes the parts.
// `index` has all but the tensors. Throws Error if a part is damaged, or if the slices are not the
// whole model, each element once. REQUIRES: the ranks' files are complete.
void write_index(const std::string& folder, CheckpointIndex index);

}  // namespace ladder
