#include "kernels/embedding.h"

#include "kernels/cpu/bodies.h"
#include "kernels/cuda/bodies.h"
#include "kernels/runtime/arguments.h"

namespace ladder {
namespace {

// (rows, columns of `out`) with the rows that a table says it has.
Shape table_shape(const ConstTensorView& table, const ConstTensorView& out) {
  return {table.shape().num_dims() > 0 ? table.shape()[0] : 0, out.shape()[2]};
}

void check_positions(const char* kernel, const char* argument, const ConstTensorView& table,
                     const ConstTensorView& out) {
  if (table.shape()[0] < out.shape()[1]) {
    fail(concat(kernel, ": argument `", argument, "` has ", table.shape()[0],
                " positions, the sequence ", out.shape()[1]));
  }
}

}  // namespace

void embedding_forward(Stream& stream, TensorView out, ConstTensorView tokens,
                       ConstTensorView table, size_t first) {
  const ArgumentCheck expect("embedding_forward", stream, "out", out, 3);
  expect("tokens", tokens, DType::int32, {out.shape()[0], out.shape()[1]});
  expect("table", table, table_shape(table, out));
  if (stream.device() == DeviceType::cpu) return cpu::embedding_forward(out, tokens, table, first);
  cuda::embedding_forward(stream, out, tokens, table, first);
}

void embedding_backward(Stream& stream, TensorView dtable, ConstTensorView tokens,
                        ConstTensorView dout, size_t first) {
  const ArgumentCheck expect("embedding_backward", stream, "dout", dout, 3);
  expect.accumulated("dtable", dtable, table_shape(dtable, dout));
  expect("tokens", tokens, DType::int32, {dout.shape()[0], dout.shape()[1]});
  if (stream.device() == DeviceType::cpu) {
    return cpu::embedding_backward(dtable, tokens, dout, first);
  }
  cuda::embedding_backward(stream, dtable, tokens, dout, first);
}

void position_forward(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView table) {
  const ArgumentCheck expect("position_forward", stream, "out", out, 3);
  expect("in", in, out.shape());
  expect("table", table, table_shape(table, out));
  check_positions("position_forward", "table", table, out);
  if (stream.device() == DeviceType::cpu) return cpu::position_forward(out, in, table);
  cuda::position_forward(stream, out, in, table);
}

void position_backward(Stream& stream, TensorView dtable, ConstTensorView dout) {
  const ArgumentCheck expect("position_backward", stream, "dout", dout, 3);
  expect.accumulated("dtable", dtable, table_shape(dtable, dout));
  check_positions("position_backward", "dtable", dtable, dout);
  if (stream.device() == DeviceType::cpu) return cpu::position_backward(dtable, dout);
  cuda::position_backward(stream, dtable, dout);
}

}  // namespace ladder
