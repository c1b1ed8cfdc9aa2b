#include "common/checkpoint/overlap.h"

#include <algorithm>

namespace ladder {
namespace {

// Adds what the stored elements [from, from + count), which are elements [at, at + count) of the
// whole tensor, have in common with `wanted`.
void add_overlaps(std::vector<Overlap>& found, size_t from, size_t at, size_t count,
                  const PlacedElements& wanted) {
  const Ranges& ranges = wanted.ranges;
  const size_t end = at + count;
  size_t next = std::max(at, ranges.first);
  while (next < end) {
    const size_t range = (next - ranges.first) / ranges.stride;
    const size_t range_begin = ranges.first + range * ranges.stride;
    const size_t within = next - range_begin;
    if (within < ranges.length) {
      // Elements of the wanted rank's part, which may have more than the wanted ones.
      const size_t part = range * ranges.length + within;
      const size_t part_end = part + std::min(ranges.length - within, end - next);
      const size_t low = std::max(part, wanted.first);
      const size_t high = std::min(part_end, wanted.first + wanted.count);
      if (low < high) {
        found.push_back({from + (next - at) + (low - part), low - wanted.first, high - low});
      }
      if (part_end >= wanted.first + wanted.count) return;
    }
    next = range_begin + ranges.stride;
  }
}

}  // namespace

std::vector<Overlap> overlaps(const PlacedElements& stored, const PlacedElements& wanted) {
  std::vector<Overlap> found;
  Parameter part;
  part.ranges = stored.ranges;
  for_ranges_in(part, stored.first, stored.first + stored.count,
                [&](size_t from, size_t at, size_t count) {
                  add_overlaps(found, from - stored.first, at, count, wanted);
                });
  return found;
}

std::vector<FileBlockPart> parts_to_read(const StoredTensor& tensor, const PlacedElements& wanted) {
  const size_t file_block_size = file_block_elements(tensor.dtype);
  std::vector<FileBlockPart> parts;
  for (const StoredSlice& slice : tensor.slices) {
    for (Overlap both : overlaps(slice.elements, wanted)) {
      while (both.count > 0) {
        const size_t within = both.from % file_block_size;
        const size_t count = std::min(both.count, file_block_size - within);
        parts.push_back({&slice, both.from / file_block_size, {within, both.to, count}});
        both = {both.from + count, both.to + count, both.count - count};
      }
    }
  }
  return parts;
}

std::string cover_fault(std::span<const PlacedElements> slices, size_t total) {
  // A tensor that 64 ranks split by columns has a tenth of this.
  constexpr size_t kMostRanges = size_t{1} << 24;
  size_t num_ranges = 0;
  for (const auto& [ranges, first, count] : slices) num_ranges += count / ranges.length + 2;
  if (num_ranges > kMostRanges) return concat("has more than ", kMostRanges, " ranges");
  std::vector<std::pair<size_t, size_t>> held;  // begin in the tensor, and elements
  for (const auto& [ranges, first, count] : slices) {
    Parameter part;
    part.ranges = ranges;
    for_ranges_in(part, first, first + count,
                  [&](size_t, size_t at, size_t n) { held.emplace_back(at, n); });
  }
  std::ranges::sort(held);
  size_t end = 0;
  for (const auto& [at, n] : held) {
    if (at < end) return concat("element ", at, " is in two slices");
    if (at > end) break;
    end = at + n;
  }
  return end == total ? "" : concat("element ", end, " is in no slice");
}

}  // namespace ladder
