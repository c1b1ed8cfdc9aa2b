#include "kernels/runtime/median.h"
#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("the median is the middle in order of size") {
  CHECK(median({3}) == 3);
  CHECK(median({5, 1, 4}) == 4);
  CHECK(median({9, -1, 2, 2, 7}) == 2);
  CHECK(median({4, 1}) == 4);
  CHECK(median({8, 3, 1, 5}) == 5);
}

}  // namespace
}  // namespace ladder
