#include "kernels/orthonormalize.h"

#include <cmath>

#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

Values row_of(const Values& matrix, size_t r, size_t n) {
  return Values(matrix.begin() + r * n, matrix.begin() + (r + 1) * n);
}

Values made(DType dtype, size_t rows, size_t n, const Values& matrix) {
  const Array array(dtype, {rows, n}, matrix);
  orthonormalize(stream(), array);
  return array.values();
}

// Rows of length 1, each orthogonal to the others. A dot product of n terms is off by n roundings
// at most, and so is each of the r projections that make a row.
void require_orthonormal(DType dtype, const Values& out, size_t rows, size_t n) {
  const double allowed = rounding_error(dtype, 4.0 * static_cast<double>(rows * n));
  for (size_t a = 0; a < rows; ++a) {
    for (size_t b = 0; b <= a; ++b) {
      const double product = dot(row_of(out, a, n), row_of(out, b, n));
      INFO(name_of(dtype) << " rows " << a << " and " << b << " of " << n);
      REQUIRE(std::abs(product - (a == b ? 1 : 0)) <= allowed);
    }
  }
}

TEST_CASE("rows become orthonormal, and span what they did") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    for (size_t n : {1, 2, 17, 65, 1000}) {
      for (size_t rows : {1, 2, 4}) {
        if (rows > n) continue;
        const Values in = random_values(dtype, rows * n, "matrix");
        const Values out = made(dtype, rows, n, in);
        require_orthonormal(dtype, out, rows, n);
        // Each row in is the sum of its projections on the rows out, up to the same number. With
        // rows of small random numbers, of which some are nearly parallel, errors grow by what is
        // left of a row: a hundredth of it at the least here.
        for (size_t r = 0; r < rows; ++r) {
          Values rest = row_of(in, r, n);
          const double length = std::sqrt(dot(rest, rest));
          for (size_t o = 0; o <= r; ++o) {
            const Values other = row_of(out, o, n);
            const double along = dot(row_of(in, r, n), other);
            for (size_t i = 0; i < n; ++i) rest[i] -= along * other[i];
          }
          REQUIRE(std::sqrt(dot(rest, rest)) <=
                  rounding_error(dtype, 100.0 * 4 * static_cast<double>(rows * n)) * length);
        }
      }
    }
  }
}

TEST_CASE("rows that depend on others give way to coordinates") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    constexpr size_t kN = 40;
    Values in(4 * kN, 0);
    in[0] = 3;                                               // row 0 is coordinate 0
    for (size_t i = 0; i < kN; ++i) in[kN + i] = 2 * in[i];  // row 1 is parallel to it
    in[2 * kN + 1] = 1;  // row 2 is coordinate 1, which row 1 becomes; row 3 is 0
    const Values out = made(dtype, 4, kN, in);
    require_orthonormal(dtype, out, 4, kN);
    CHECK(out[0] == 1);
    CHECK(out[kN + 1] == 1);
    CHECK(out[2 * kN + 2] == 1);
    CHECK(out[3 * kN + 3] == 1);
  }
}

TEST_CASE("NaN reaches the row and those after it") {
  const OnDevice on = on_every_device();
  Values in = random_values(DType::fp32, 3 * 20, "matrix");
  in[25] = std::nan("");
  const Values out = made(DType::fp32, 3, 20, in);
  for (size_t i = 0; i < out.size(); ++i) CHECK(std::isnan(out[i]) == (i >= 20));
}

TEST_CASE("more rows than elements are refused") {
  CHECK_THROWS_WITH(
      orthonormalize(stream(), Array(DType::fp32, {3, 2})),
      ContainsSubstring("orthonormalize: argument `matrix` has 3 rows of 2 elements"));
}

}  // namespace
}  // namespace ladder
