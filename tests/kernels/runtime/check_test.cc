// Messages.
#include "kernels/runtime/check.h"

#include <cstdint>

#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("one of a thing is singular, any other number plural") {
  CHECK(counted(0, "stage") == "0 stages");
  CHECK(counted(1, "stage") == "1 stage");
  CHECK(counted(2, "stage") == "2 stages");
  CHECK(counted(size_t{1}, "micro-batch") == "1 micro-batch");
  CHECK(counted(size_t{12}, "micro-batch") == "12 micro-batches");
  CHECK(counted(1.0, "layer") == "1 layer");
  CHECK(counted(1e20, "layer") == "1e+20 layers");
}

}  // namespace
}  // namespace ladder
