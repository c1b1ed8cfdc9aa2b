#include "tools/course/pictures/collective_frames.h"

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/picture_check.h"
#include "tests/tools/course/pictures/svg_text.h"

namespace ladder {
namespace {

using testing::count_text;
using testing::rects_of;

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("a ring of two ranks: two frames after the first, and who has how much of a sum") {
  const std::string svg = draw_all_reduce(Algorithm::ring, 2);  // [1 2] and [3 4]
  CHECK(count_text(svg, "ring all_reduce on 2 ranks: 2 rounds") == 1);
  CHECK(count_text(svg, "at first") == 1);
  CHECK(count_text(svg, "round 1") == 1);
  CHECK(count_text(svg, "round 2") == 0);
  // Round 0: rank 0 has 1 + 3, rank 1 has 2 + 4. Round 1: both have both.
  CHECK(count_text(svg, "4") == 1 + 1 + 2);  // the number, then the sum
  CHECK(count_text(svg, "6") == 1 + 2);
  // Complete are two squares, then four; the last one is the legend's.
  CHECK(count_of(svg, "fill-opacity=\"1\"") == 2 + 4 + 1);
  CHECK(count_of(svg, "fill-opacity=\"0.33\"") == 4 + 2 + 1);
  // In each round both ranks receive one number. The last ones are the legend's.
  CHECK(count_of(svg, "<polygon class=\"communication\"") == 4 + 1);
  CHECK(rects_of(svg, "communication edge").size() == 4 + 1);
}

// Of the bold numbers that stand beside arrows, without the complete sums.
TEST_CASE("the parts that travel: one in a ring, half and a quarter in halving, all in a tree") {
  const auto count_moved = [](Algorithm algorithm) {
    const std::string svg = draw_all_reduce(algorithm, 4);
    return std::pair(count_of(svg, "<polygon class=\"communication\"") - 1,
                     rects_of(svg, "communication edge").size() - 1);
  };
  CHECK(count_moved(Algorithm::ring) == std::pair<size_t, size_t>(6 * 4, 6 * 4));
  CHECK(count_moved(Algorithm::halving) == std::pair<size_t, size_t>(4 * 4, (2 + 1 + 1 + 2) * 4));
  CHECK(count_moved(Algorithm::tree) == std::pair<size_t, size_t>(2 * (2 + 1), 2 * (2 + 1) * 4));
  const std::string tree = draw_all_reduce(Algorithm::tree, 4);
  CHECK(count_text(tree, "all") == 2 * (2 + 1));
  CHECK(count_text(tree, "round 3") == 1);
  const std::string halving = draw_all_reduce(Algorithm::halving, 4);
  CHECK(count_text(halving, "0 1") == 2 + 2);
  CHECK(count_text(halving, "2 3") == 2 + 2);
}

TEST_CASE("frames of all algorithms and sizes have their arrows and texts apart") {
  for (const Algorithm algorithm : kAlgorithms) {
    for (size_t num_ranks : {2, 3, 4}) {
      if (algorithm == Algorithm::halving && num_ranks == 3) continue;
      CAPTURE(name_of(algorithm), num_ranks);
      CHECK(testing::picture_findings(draw_all_reduce(algorithm, num_ranks)) ==
            std::vector<std::string>());
    }
  }
}

TEST_CASE("a ring of one rank has no rounds to show") {
  CHECK_THROWS_AS(draw_all_reduce(Algorithm::ring, 1), Error);
}

}  // namespace
}  // namespace ladder
