// What two slices of a tensor have in common, against the sets of their elements.
#include "common/checkpoint/overlap.h"

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

// The elements of the whole tensor that a slice has, in its order.
std::vector<size_t> elements_of(const PlacedElements& slice) {
  std::vector<size_t> elements;
  for (size_t i = slice.first; i < slice.first + slice.count; ++i) {
    elements.push_back(slice.ranges.first + i / slice.ranges.length * slice.ranges.stride +
                       i % slice.ranges.length);
  }
  return elements;
}

std::string text_of(const PlacedElements& slice) {
  return concat("runs ", slice.ranges.first, " ", slice.ranges.length, " ", slice.ranges.stride,
                " range ", slice.first, " ", slice.count);
}

// Does an element begin a run, other than the slice's first?
bool begins_run(const PlacedElements& slice, size_t element) {
  return (slice.first + element) % slice.ranges.length == 0;
}

// What overlaps() must find: each common element, then neighbours put together.
std::vector<Overlap> expected(const PlacedElements& stored, const PlacedElements& wanted) {
  std::map<size_t, size_t> places;  // of the elements in `wanted`
  const std::vector<size_t> of_wanted = elements_of(wanted), of_stored = elements_of(stored);
  for (size_t i = 0; i < of_wanted.size(); ++i) places[of_wanted[i]] = i;
  std::vector<Overlap> found;
  for (size_t from = 0; from < of_stored.size(); ++from) {
    const auto place = places.find(of_stored[from]);
    if (place == places.end()) continue;
    const size_t to = place->second;
    const bool continues = !found.empty() && found.back().from + found.back().count == from &&
                           found.back().to + found.back().count == to &&
                           !begins_run(stored, from) && !begins_run(wanted, to);
    if (continues) {
      ++found.back().count;
    } else {
      found.push_back({from, to, 1});
    }
  }
  return found;
}

// A slice within `total` elements. Its runs may touch each other, and it may begin and end within a
// run.
PlacedElements random_slice(std::mt19937& random, size_t total) {
  const auto up_to = [&](size_t most) { return random() % (most + 1); };
  PlacedElements slice;
  slice.ranges.first = up_to(total - 1);
  const size_t left = total - slice.ranges.first;
  slice.ranges.length = 1 + up_to(left - 1) / (1 + up_to(8));
  slice.ranges.stride = slice.ranges.length + up_to(1) * up_to(12);
  const size_t whole = left / slice.ranges.stride, rest = left % slice.ranges.stride;
  const size_t part = whole * slice.ranges.length + std::min(rest, slice.ranges.length);
  slice.first = up_to(part - 1);
  slice.count = 1 + up_to(part - slice.first - 1);
  return slice;
}

TEST_CASE("any two slices have in common what their elements have in common") {
  std::mt19937 random(17);
  size_t num_found = 0;
  for (int i = 0; i < 20'000; ++i) {
    const size_t total = 1 + random() % 150;
    const PlacedElements stored = random_slice(random, total), wanted = random_slice(random, total);
    const std::vector<Overlap> found = overlaps(stored, wanted);
    num_found += found.size();
    if (found == expected(stored, wanted)) continue;
    FAIL(text_of(stored) << " and " << text_of(wanted) << " of " << total);
  }
  CHECK(num_found > 10'000);
}

TEST_CASE("a part of q, k and v of two columns each, wanted from rows of the whole") {
  // A tensor of 2 rows and 12 columns, four of each of q, k and v. The second of two tensor ranks
  // has columns 2, 3, 6, 7, 10 and 11 of each row; the second of two data ranks has row 1.
  const PlacedElements part = {{2, 2, 4}, 0, 12}, row = {{0, 24, 24}, 12, 12};
  CHECK(overlaps(row, part) == std::vector<Overlap>{{2, 6, 2}, {6, 8, 2}, {10, 10, 2}});
  CHECK(overlaps(part, row) == std::vector<Overlap>{{6, 2, 2}, {8, 6, 2}, {10, 10, 2}});
  CHECK(overlaps({{0, 2, 4}, 0, 12}, part).empty());
}

TEST_CASE("the example of notes/checkpoints.md") {
  // A tensor of 4 rows and 6 columns, of two tensor and two data ranks.
  const PlacedElements ranks[] = {
      {{0, 3, 6}, 0, 6}, {{3, 3, 6}, 0, 6}, {{0, 3, 6}, 6, 6}, {{3, 3, 6}, 6, 6}};
  CHECK(cover_fault(ranks, 24) == "");
  CHECK(elements_of(ranks[3]) == std::vector<size_t>{15, 16, 17, 21, 22, 23});
  // The second of three data ranks.
  const PlacedElements wanted = {{0, 24, 24}, 8, 8};
  CHECK(overlaps(ranks[0], wanted) == std::vector<Overlap>{{5, 0, 1}});
  CHECK(overlaps(ranks[1], wanted) == std::vector<Overlap>{{3, 1, 3}});
  CHECK(overlaps(ranks[2], wanted) == std::vector<Overlap>{{0, 4, 3}});
  CHECK(overlaps(ranks[3], wanted) == std::vector<Overlap>{{0, 7, 1}});
}

// Slices that make up a tensor: parts by tensor ranks, of which data ranks have ranges.
std::vector<PlacedElements> random_cover(std::mt19937& random, size_t& total) {
  const size_t parts = 1 + random() % 4, length = 1 + random() % 5, groups = 1 + random() % 6;
  total = parts * length * groups;
  std::vector<PlacedElements> slices;
  for (size_t part = 0; part < parts; ++part) {
    for (size_t first = 0; first < length * groups;) {
      const size_t count = 1 + random() % (length * groups - first);
      slices.push_back({{part * length, length, parts * length}, first, count});
      first += count;
    }
  }
  std::shuffle(slices.begin(), slices.end(), random);
  return slices;
}

TEST_CASE("a cover is whole, and what is missing or doubled is named") {
  std::mt19937 random(3);
  for (int i = 0; i < 2'000; ++i) {
    size_t total = 0;
    std::vector<PlacedElements> slices = random_cover(random, total);
    REQUIRE(cover_fault(slices, total) == "");
    const size_t victim = random() % slices.size();
    PlacedElements& slice = slices[victim];
    const size_t last = elements_of(slice).back();
    CAPTURE(i, total, text_of(slice));
    // Without the slice's last element; with it a second time.
    std::vector<PlacedElements> changed = slices;
    changed[victim].count -= 1;
    if (changed[victim].count == 0) changed.erase(changed.begin() + static_cast<long>(victim));
    CHECK(cover_fault(changed, total) == concat("element ", last, " is in no slice"));
    changed = slices;
    changed.push_back({{last, 1, 1}, 0, 1});
    CHECK(cover_fault(changed, total) == concat("element ", last, " is in two slices"));
  }
  CHECK(cover_fault({}, 1) == "element 0 is in no slice");
}

TEST_CASE("a claim of too many runs is refused before they are counted out") {
  const std::vector<PlacedElements> slices = {{{0, 1, 2}, 0, size_t{1} << 40}};
  CHECK_THAT(cover_fault(slices, size_t{1} << 41), ContainsSubstring("more than 16777216 ranges"));
}

TEST_CASE("parts to read lie in one file block each, and make up what is wanted") {
  // Two slices of 300,000 and 100,000 doubles: three file blocks of up to 131,072 doubles, and one.
  StoredTensor tensor{DType::fp64, {400'000}, {}};
  tensor.slices = {{0, {{0, 400'000, 400'000}, 0, 300'000}, {}},
                   {1, {{0, 400'000, 400'000}, 300'000, 100'000}, {}}};
  // Elements 600 to 1,099, 1,000 from 130,100, 1,000 from 260,100, and 500 from 390,100.
  const PlacedElements wanted = {{100, 1'000, 130'000}, 500, 3'000};
  using Part =
      std::tuple<size_t, size_t, size_t, size_t, size_t>;  // rank, file block, from, to, count
  std::vector<Part> parts;
  for (const auto& [slice, file_block, part] : parts_to_read(tensor, wanted)) {
    parts.emplace_back(slice->rank, file_block, part.from, part.to, part.count);
  }
  CHECK(parts == std::vector<Part>{{0, 0, 600, 0, 500},
                                   {0, 0, 130'100, 500, 972},
                                   {0, 1, 0, 1'472, 28},
                                   {0, 1, 260'100 - 131'072, 1'500, 1'000},
                                   {1, 0, 90'100, 2'500, 500}});
}

}  // namespace
}  // namespace ladder
