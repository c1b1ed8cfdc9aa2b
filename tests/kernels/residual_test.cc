#include "kernels/residual.h"

#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

TEST_CASE("add_residual rounds update + bias, then the sum; it may write over either") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t rows : kOddSizes) {
      for (size_t n : {1, 17, 63, 64, 65}) {
        const Shape shape{rows, n};
        const Values residual = random_values(dtype, rows * n, "residual");
        const Values update = random_values(dtype, rows * n, "update");
        const Values bias = random_values(dtype, n, "bias");
        Values expected(rows * n);
        for (size_t i = 0; i < rows * n; ++i) {
          const double added = rounded(accumulation_dtype(dtype), update[i] + bias[i % n]);
          expected[i] = stored(dtype, residual[i] + added);
        }
        const Array r(dtype, shape, residual), u(dtype, shape, update), b(dtype, {n}, bias);
        const auto run = [&] {
          const Array out(dtype, shape);
          add_residual(stream(), out, r, u, b);
          return out.values();
        };
        require_same_bits(run(), expected);
        if (rows == 65) require_same_for_any_threads(run);
        require_same_bits(r.values(), residual);
        require_same_bits(u.values(), update);
        require_same_bits(b.values(), bias);
        const Array over_residual(dtype, shape, residual), over_update(dtype, shape, update);
        add_residual(stream(), over_residual, over_residual, u, b);
        add_residual(stream(), over_update, r, over_update, b);
        require_same_bits(over_residual.values(), expected);
        require_same_bits(over_update.values(), expected);
      }
    }
  }
}

}  // namespace
}  // namespace ladder
