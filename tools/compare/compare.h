// When are two runs' tensors the same? The rules, on tensors in memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kernels/runtime/tensor.h"

namespace ladder {

struct CompareOptions {
  double tolerance = 0;  // relative to the tensor's largest |element|; 0 = bitwise the same
  // The runs' own, for the key-bias rule below.
  double learning_rate = 2e-3;
  double epsilon = 1e-8;
};

// UserError, naming the flag: a value that is negative or not finite, a zero that makes no sense.
void check_options(const CompareOptions& options);

// What was found on one tensor. The figures are over all finite pairs of elements.
struct TensorDifference {
  std::string name;
  bool passes = false;
  bool identical = false;     // dtype, shape and every bit
  size_t num_elements = 0;    // compared; 0 if the tensors could not be compared at all
  double max_absolute = 0;    // largest |a - b|
  double max_relative = 0;    // max_absolute / largest |element| of a and b; 0 if all are 0
  uint64_t max_ulp = 0;       // representable numbers between a and b, in the narrower dtype
  size_t num_not_finite = 0;  // pairs with a NaN or an infinity
  std::string remark;         // what the figures do not say; may be empty
};

// Compares a with b, host memory, each fp32 or fp64. Passes if max_relative <= tolerance; for
// tolerance 0, if dtype and bits are the same (so 0 differs from -0). Never passes: another shape,
// a NaN or an infinity anywhere, even the same in both.
TensorDifference compare_values(const std::string& name, ConstTensorView a, ConstTensorView b,
                                double tolerance);

// The same for c_attn.bias (3C), of which the middle third, the key bias, passes up to
// |a - b| <= tolerance * largest |element| + allowance. REQUIRES: tolerance > 0.
TensorDifference compare_key_bias(const std::string& name, ConstTensorView a, ConstTensorView b,
                                  double tolerance, double allowance);

// Compares the dumps of two runs, step after step.
//
// The key part of c_attn.bias has a gradient that is zero but for rounding, since softmax does not
// see a shift, and AdamW divides that rounding by |g| + epsilon. So with a tolerance above 0 its
// *parameters* are compared with the allowance steps * learning_rate * g / epsilon, where g is the
// largest |key-bias gradient| of either run so far. Everything else follows compare_values().
class DumpComparer {
 public:
  explicit DumpComparer(const CompareOptions& options) : options_(options) {}

  // Compares one tensor of step `step` (from 1; 0 = not known, then there is no key-bias rule).
  // `name` as in a dump: grad.NAME, param.NAME, ... REQUIRES: steps ascend, and of one step the
  // gradients come before the parameters.
  TensorDifference compare(size_t step, const std::string& name, ConstTensorView a,
                           ConstTensorView b);

 private:
  CompareOptions options_;
  std::map<std::string, double> key_gradients_;  // by parameter: the largest so far
};

}  // namespace ladder
