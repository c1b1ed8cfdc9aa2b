// When are two runs' tensors the same? The rules, on tensors in memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kernels/runtime/tensor.h"

namespace ladder {

struct CompareOptions {
  double tolerance = 0;  // relative to the part's largest |element|; 0 = bitwise the same
  // The runs' own, for the key-bias rule below.
  double learning_rate = 2e-3;
  double epsilon = 1e-8;
};

// UserError, naming the flag: a value that is negative or not finite, a zero that makes no sense.
void check_options(const CompareOptions& options);

// Parts of a tensor whose numbers differ in size by nature, so that each has a scale of its own.
// Measured against the largest element of the whole tensor, a mistake in a small part would pass:
// the gradients of query and key are a hundredth of value's, those of a token that was not read a
// thousandth of those of one that was. The parts are
//   c_attn.weight (C, 3C), c_attn.bias (3C)   query, key and value
//   wte.weight (V, C), wpe.weight (T, C), embed_tokens.weight (V, C)   the rows: tokens, positions
// and any other tensor is one part: a Llama's query, key and value are tensors of their own.
//
// One part has no scale of its own: the key part of c_attn.bias. Softmax does not see a shift of
// all scores of a row, so the gradient is zero but for rounding, and two right results need not
// have a digit in common. It is measured against the largest element of the whole bias. (Rotary
// positions turn a key's bias with its token, so there it is no shift of all scores.)
struct Parts {
  size_t length = 0, count = 1;  // runs of `length` elements; the i-th belongs to part i % count
  enum class Kind { whole, rows, weights, bias } kind = Kind::whole;

  std::string name_of(size_t part) const;  // "key", "row 17"; "" of the whole
};
// `name`: as in a dump or in a file of weights.
Parts parts_of(const std::string& name, const Shape& shape);

// What was found on one tensor. The figures are over all finite pairs of elements.
struct TensorDifference {
  std::string name;
  bool passes = false;
  bool identical = false;   // dtype, shape and every bit
  size_t num_elements = 0;  // compared; 0 if the tensors could not be compared at all
  double max_absolute = 0;  // largest |a - b|
  double max_relative = 0;  // of the worst part: largest |a - b| / its scale; 0 if all are the same
  uint64_t max_ulp = 0;     // representable numbers between a and b, in the narrower dtype
  size_t num_not_finite = 0;  // pairs with a NaN or an infinity
  std::string part;           // the worst: "key", "row 17"; empty if the tensor is one part
  std::string remark;         // what the figures do not say; may be empty
};

// Compares a with b, host memory, each fp32 or fp64. Passes if in every part |a - b| <= tolerance *
// scale, where the scale is the part's largest |element| of a and b; for tolerance 0, if dtype and
// bits are the same (so 0 differs from -0). Never passes: another shape, a NaN or an infinity
// anywhere, even the same in both. The key part of c_attn.bias may differ by `key_allowance` more.
TensorDifference compare_values(const std::string& name, ConstTensorView a, ConstTensorView b,
                                double tolerance, double key_allowance = 0);

// Compares the dumps of two runs, step after step.
//
// AdamW divides the key bias' gradient, which is rounding alone, by |g| + epsilon. So with a
// tolerance above 0 its *parameters* are compared with the allowance steps * learning_rate * g /
// epsilon, where g is the largest |key-bias gradient| of either run so far. Everything else has
// none.
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
