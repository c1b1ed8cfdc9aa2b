// An orthonormal basis of the space that a few rows span.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// A row of which less than this fraction of its squared length is left, when its projections on the
// rows before are subtracted, counts as one that depends on them: what is left is mostly rounding.
inline constexpr double kDependent = 1e-10;

// What is left of the squared length of one of the first r + 1 coordinates at least, when its
// projections on r orthogonal rows are subtracted: all r + 1 of them together lose at most r. Half
// of it allows for rounding.
template <class T>
constexpr T least_left(size_t r) {
  return T{0.5} / static_cast<T>(r + 1);
}

// Makes the rows of a matrix orthogonal to each other and of length 1, one after the other
// (modified Gram-Schmidt), such that the first k of them span what the first k did. A row that
// depends on those before is replaced by the direction of one coordinate. NaN and infinity make
// every later row NaN. One thread, or thread block, does it: rows are few.
//   matrix (R, C) fp32 or fp64 in/out, R <= C
void orthonormalize(Stream& stream, TensorView matrix);

// What each kernel computes and moves (Cost in kernel.h).
inline Cost orthonormalize_cost(ConstTensorView matrix) {
  const double r = number_of(matrix.shape()[0]), n = number_of(matrix.num_elements());
  return moving_cost((2 * r + 5) * n, {matrix}, {matrix});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::orthonormalize) orthonormalize;
}  // namespace cpu

namespace cuda {
decltype(ladder::orthonormalize) orthonormalize;
}  // namespace cuda

inline void orthonormalize(Stream& stream, TensorView matrix) {
  const ArgumentCheck expect("orthonormalize", stream, "matrix", matrix, 2,
                             ArgumentCheck::kAccumulation);
  if (matrix.shape()[0] > matrix.shape()[1]) {
    fail(concat("orthonormalize: argument `matrix` has ", matrix.shape()[0], " rows of ",
                matrix.shape()[1], " elements, which cannot all be orthogonal"));
  }
  run_body(expect, orthonormalize_cost(matrix), cpu::orthonormalize, cuda::orthonormalize, stream,
           matrix);
}

}  // namespace ladder
