// What the makers of kernel cases have in common (kernel_case.h).
#pragma once

#include <cmath>

#include "kernels/kernel.h"
#include "tools/measure/calibrator/kernel_case.h"

namespace ladder::cases {

inline size_t whole(double number) { return static_cast<size_t>(std::llround(number)); }

// A call's cost, and the dtypes of its arguments.
struct Call {
  explicit Call(const KernelCall& call)
      : cost(call.cost), x(call.dtype), sums(accumulation_dtype(call.dtype)) {}

  double bytes() const { return number_of(size_of(x)); }
  double sum_bytes() const { return number_of(size_of(sums)); }

  Cost cost;
  DType x, sums;  // compute and accumulation
};

using MakeCase = KernelCase (*)(const Call&);

// The kernels with products.
KernelCase matmul_case(const Call& c);
KernelCase matmul_bias_case(const Call& c);
KernelCase matmul_bias_gelu_case(const Call& c);
KernelCase matmul_residual_case(const Call& c);
KernelCase matmul_gelu_backward_case(const Call& c);
KernelCase attention_forward_case(const Call& c);
KernelCase attention_backward_case(const Call& c);

}  // namespace ladder::cases
