// Which elements two slices of one tensor have in common. By this a rank finds what it must read
// for its slices from a checkpoint that was written in another layout.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/index.h"

namespace ladder {

// Elements [from, from + count) of one slice are elements [to, to + count) of another.
struct Overlap {
  size_t from = 0, to = 0, count = 0;
  friend bool operator==(const Overlap&, const Overlap&) = default;
};

// Returns the elements that the slices `stored` and `wanted` of one tensor have in common, in the
// order in which they are stored. Elements are counted from the beginning of each slice. What lies
// together in both is one Overlap, as far as it lies in one range of each.
std::vector<Overlap> overlaps(const PlacedElements& stored, const PlacedElements& wanted);

// A part of a tensor that lies in one file block of one of its slices: of the elements that are
// wanted, [to, to + count) are elements [from, from + count) of the file block.
struct FileBlockPart {
  const StoredSlice* slice;
  size_t file_block;  // its number in the slice
  Overlap part;
};

// Returns the parts of a stored tensor that make up the elements `wanted`, slice by slice and file
// block by file block: what to read, and where it goes. The slices belong to `tensor`.
std::vector<FileBlockPart> parts_to_read(const StoredTensor& tensor, const PlacedElements& wanted);

// Returns an empty text if the slices of a tensor have each of its `total` elements exactly once;
// otherwise says what is wrong, as in "element 17 is in two slices". REQUIRES: every slice stays
// within the tensor.
std::string cover_fault(std::span<const PlacedElements> slices, size_t total);

}  // namespace ladder
