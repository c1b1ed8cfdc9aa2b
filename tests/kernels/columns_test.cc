#include "kernels/columns.h"

#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

TEST_CASE("copy_columns copies some columns to others, rounds them, and touches no more") {
  const OnDevice on = on_every_device();
  constexpr size_t kRows = 65, kFrom = 7, kTo = 40, kCount = 33;
  for (DType to : floats()) {
    for (DType from : floats()) {
      INFO(name_of(from) << " to " << name_of(to));
      const Values x = random_values(from, kRows * (kCount + kFrom), "x");
      Values expected = random_values(to, kRows * (kCount + kTo), "out");
      const Array out(to, {kRows, kCount + kTo}, expected);
      copy_columns(stream(), out, 5, Array(from, {kRows, kCount + kFrom}, x), kFrom, kCount);
      for (size_t r = 0; r < kRows; ++r) {
        for (size_t i = 0; i < kCount; ++i) {
          expected[r * (kCount + kTo) + 5 + i] = rounded(to, x[r * (kCount + kFrom) + kFrom + i]);
        }
      }
      require_same_bits(out.values(), expected);
    }
  }
}

}  // namespace
}  // namespace ladder
