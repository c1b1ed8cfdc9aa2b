#include "common/checkpoint/overlap.h"

#include <algorithm>

namespace ladder {
namespace {

// Adds what the stored elements [from, from + count), which are elements [at, at + count) of the
// whole tensor, have in common with `wanted`.
void add_overlaps(std::vector<Overlap>& found, size_t from, size_t at, size_t count,
                  const PlacedElements& wanted) {
  const Runs& runs = wanted.runs;
  const size_t end = at + count;
  size_t next = std::max(at, runs.first);
  while (next < end) {
    const size_t run = (next - runs.first) / runs.stride;
    const size_t run_begin = runs.first + run * runs.stride;
    const size_t within = next - run_begin;
    if (within < runs.length) {
      // Elements of the wanted rank's part, which may have more than the wanted ones.
      const size_t part = run * runs.length + within;
      const size_t part_end = part + std::min(runs.length - within, end - next);
      const size_t low = std::max(part, wanted.first);
      const size_t high = std::min(part_end, wanted.first + wanted.count);
      if (low < high) {
        found.push_back({from + (next - at) + (low - part), low - wanted.first, high - low});
      }
      if (part_end >= wanted.first + wanted.count) return;
    }
    next = run_begin + runs.stride;
  }
}

}  // namespace

std::vector<Overlap> overlaps(const PlacedElements& stored, const PlacedElements& wanted) {
  std::vector<Overlap> found;
  Parameter part;
  part.runs = stored.runs;
  for_runs_in(part, stored.first, stored.first + stored.count,
              [&](size_t from, size_t at, size_t count) {
                add_overlaps(found, from - stored.first, at, count, wanted);
              });
  return found;
}

std::vector<ChunkPart> parts_to_read(const StoredTensor& tensor, const PlacedElements& wanted) {
  const size_t chunk_size = chunk_elements(tensor.dtype);
  std::vector<ChunkPart> parts;
  for (const StoredSlice& slice : tensor.slices) {
    for (Overlap both : overlaps(slice.elements, wanted)) {
      while (both.count > 0) {
        const size_t within = both.from % chunk_size;
        const size_t count = std::min(both.count, chunk_size - within);
        parts.push_back({&slice, both.from / chunk_size, {within, both.to, count}});
        both = {both.from + count, both.to + count, both.count - count};
      }
    }
  }
  return parts;
}

std::string cover_fault(std::span<const PlacedElements> slices, size_t total) {
  // A tensor that 64 ranks split by columns has a tenth of this.
  constexpr size_t kMostRuns = size_t{1} << 24;
  size_t num_runs = 0;
  for (const auto& [runs, first, count] : slices) num_runs += count / runs.length + 2;
  if (num_runs > kMostRuns) return concat("has more than ", kMostRuns, " runs");
  std::vector<std::pair<size_t, size_t>> pieces;  // begin in the tensor, and elements
  for (const auto& [runs, first, count] : slices) {
    Parameter part;
    part.runs = runs;
    for_runs_in(part, first, first + count,
                [&](size_t, size_t at, size_t n) { pieces.emplace_back(at, n); });
  }
  std::ranges::sort(pieces);
  size_t end = 0;
  for (const auto& [at, n] : pieces) {
    if (at < end) return concat("element ", at, " is in two slices");
    if (at > end) break;
    end = at + n;
  }
  return end == total ? "" : concat("element ", end, " is in no slice");
}

}  // namespace ladder
