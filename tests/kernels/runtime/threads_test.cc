#include "kernels/runtime/threads.h"

#include <omp.h>

#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("set_num_threads decides how many threads the bodies get") {
  const int before = omp_get_max_threads();
  CHECK(num_available_cores() >= 1);
  for (int count : {1, 3, 2}) {
    set_num_threads(count);
    CHECK(omp_get_max_threads() == count);
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace ladder
