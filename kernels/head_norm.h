// RMSNorm of heads, as Qwen 3 has it for q and k before they are turned: each head of a row is
// normed by itself, and all heads have the same weight. So scores cannot grow with the size of q
// and k. [Henry20; Dehghani23 ViT-22B; Yang25 Qwen3] Read cpu/plain_rmsnorm.h first: a head is one
// of its rows.
//
// The heads of a row have neighbours, which are left alone: k's heads lie between q's and v's. A
// row has H = heads.count of them, from column D * heads.first on, of D elements each.
#pragma once

#include "kernels/head_range.h"

namespace ladder {

// Norms the heads in place. For a head x, with rstd = 1 / sqrt(mean of x^2 + epsilon):
//   x = x * rstd * weight
//   x (R, n) in/out; weight (D) in
//   before (R, H D) out: the heads as they were, and rstd (R, H) out, in the accumulation dtype,
//   both saved for backward. (What is left in x does not tell: a weight may be 0.)
void head_norm_forward(Stream& stream, TensorView x, TensorView before, TensorView rstd,
                       HeadRange heads, ConstTensorView weight, double epsilon);

// Turns the gradient with respect to the normed heads into that with respect to the heads before,
// in place. With n = before * rstd and g = dx * weight, each head by itself:
//   dx = rstd * (g - n * mean_D(g * n)),  where mean_D is the mean over a head
//   dweight += sum over rows and heads of dx * n, of the dx that came in; left out if it is empty
//   dx (R, n) in/out; dweight (D) in/out, in the accumulation dtype
//   before (R, H D), weight (D) in; rstd (R, H) in, in the accumulation dtype
// The order of the sums depends on R, H and D alone: heads are counted row by row, and summed as
// the rows of rmsnorm_backward() are; on GPUs in as many parts as there are thread blocks, which
// are added in order.
void head_norm_backward(Stream& stream, TensorView dx, TensorView dweight, HeadRange heads,
                        ConstTensorView before, ConstTensorView weight, ConstTensorView rstd);

// What each kernel computes and moves (Cost in kernel.h): of x and dx, the heads.
inline Cost head_norm_forward_cost(ConstTensorView before, ConstTensorView rstd,
                                   ConstTensorView weight) {
  return moving_cost(4 * number_of(before.num_elements()), {before, weight},
                     {before, before, rstd});
}
inline Cost head_norm_backward_cost(ConstTensorView before, ConstTensorView dweight,
                                    ConstTensorView weight, ConstTensorView rstd) {
  return moving_cost(10 * number_of(before.num_elements()), {before, before, dweight, weight, rstd},
                     {before, dweight});
}

// Where a matrix has the heads: the element at which head h begins, counted row by row.
struct HeadOffsets {
  size_t columns, first_column, num_heads, head_size;

  HeadOffsets(const ConstTensorView& x, HeadRange heads, size_t head_size_)
      : columns(x.shape()[1]),
        first_column(heads.first * head_size_),
        num_heads(heads.count),
        head_size(head_size_) {}
  constexpr size_t operator()(size_t h) const {
    return h / num_heads * columns + first_column + h % num_heads * head_size;
  }
};

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::head_norm_forward) head_norm_forward;
decltype(ladder::head_norm_backward) head_norm_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::head_norm_forward) head_norm_forward;
decltype(ladder::head_norm_backward) head_norm_backward;
}  // namespace cuda

// Checks what both have; `argument` is x or dx.
inline ArgumentCheck check_head_norm(const char* kernel, const Stream& stream, const char* argument,
                                     ConstTensorView x, HeadRange heads, ConstTensorView before,
                                     ConstTensorView weight, ConstTensorView rstd) {
  const ArgumentCheck expect(kernel, stream, argument, x, 2);
  const size_t rows = x.shape()[0];
  const size_t head_size = weight.shape().num_dims() == 1 ? weight.shape()[0] : 0;
  expect("weight", weight, {head_size});
  check_heads(kernel, argument, x.shape()[1], heads, head_size);
  expect("before", before, {rows, heads.count * head_size});
  expect.accumulated("rstd", rstd, {rows, heads.count});
  return expect;
}

inline void head_norm_forward(Stream& stream, TensorView x, TensorView before, TensorView rstd,
                              HeadRange heads, ConstTensorView weight, double epsilon) {
  const ArgumentCheck expect =
      check_head_norm("head_norm_forward", stream, "x", x, heads, before, weight, rstd);
  if (!(epsilon >= 0)) {
    fail(concat("head_norm_forward: argument `epsilon` is ", epsilon, ", expected at least 0"));
  }
  run_body(expect, head_norm_forward_cost(before, rstd, weight), cpu::head_norm_forward,
           cuda::head_norm_forward, stream, x, before, rstd, heads, weight, epsilon);
}

inline void head_norm_backward(Stream& stream, TensorView dx, TensorView dweight, HeadRange heads,
                               ConstTensorView before, ConstTensorView weight,
                               ConstTensorView rstd) {
  const ArgumentCheck expect =
      check_head_norm("head_norm_backward", stream, "dx", dx, heads, before, weight, rstd);
  if (!dweight.empty()) expect.accumulated("dweight", dweight, weight.shape());
  run_body(expect, head_norm_backward_cost(before, dweight, weight, rstd), cpu::head_norm_backward,
           cuda::head_norm_backward, stream, dx, dweight, heads, before, weight, rstd);
}

}  // namespace ladder
