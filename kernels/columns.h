// Copies columns of one matrix to columns of another.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// out[r, out_first + i] = in[r, in_first + i] for i < count, rounded to nearest in the dtype of
// out. The other columns of `out` keep their values.
//   out (R, n) out; in (R, m) in; the two dtypes may differ
void copy_columns(Stream& stream, TensorView out, size_t out_first, ConstTensorView in,
                  size_t in_first, size_t count);

// What the kernel computes and moves (Cost in kernel.h).
inline Cost copy_columns_cost(ConstTensorView out, ConstTensorView in, size_t count) {
  const double elements = number_of(out.shape()[0] * count);
  return {.bytes_read = elements * number_of(size_of(in.dtype())),
          .bytes_written = elements * number_of(size_of(out.dtype()))};
}

// The bodies for each device, and the entry, which checks the arguments and calls a body.
namespace cpu {
decltype(ladder::copy_columns) copy_columns;
}  // namespace cpu

namespace cuda {
decltype(ladder::copy_columns) copy_columns;
}  // namespace cuda

inline void copy_columns(Stream& stream, TensorView out, size_t out_first, ConstTensorView in,
                         size_t in_first, size_t count) {
  const ArgumentCheck expect_out("copy_columns", stream, "out", out, 2);
  const ArgumentCheck expect_in("copy_columns", stream, "in", in, 2);
  const auto have = [count](const ConstTensorView& view, size_t first) {
    return first <= view.shape()[1] && count <= view.shape()[1] - first;
  };
  check(out.shape()[0] == in.shape()[0], "copy_columns: argument `in` has other rows than `out`");
  check(have(out, out_first), "copy_columns: argument `out` has fewer columns");
  check(have(in, in_first), "copy_columns: argument `in` has fewer columns");
  run_body(expect_out, copy_columns_cost(out, in, count), cpu::copy_columns, cuda::copy_columns,
           stream, out, out_first, in, in_first, count);
}

}  // namespace ladder
