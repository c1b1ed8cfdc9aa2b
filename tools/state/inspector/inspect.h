// What is in a file of tensors: a dump, or weights.
#pragma once

#include <cstddef>
#include <string>

#include "common/io/safetensors.h"

namespace ladder {

// What one tensor's numbers are like. NaN and infinities count in no other number.
struct TensorSummary {
  double norm = 0;  // the square root of the sum of the squares
  double minimum = 0, maximum = 0;
  size_t num_zeros = 0, num_not_finite = 0;
};
TensorSummary summarize(const SafetensorsReader& file, const SafetensorsEntry& entry);

// A line for each tensor: name, dtype, shape and its summary.
std::string table_of(const SafetensorsReader& file);

// The tensors called `name`, or PREFIX.name ("grad.h.0.ln_1.bias" for "h.0.ln_1.bias"), with their
// summaries and `count` of their numbers, from row `row` and column `column` on; a vector is one
// row. UserError: no such tensor, or it has no such row or column.
std::string values_of(const SafetensorsReader& file, const std::string& name, size_t row,
                      size_t column, size_t count);

}  // namespace ladder
