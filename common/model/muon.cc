#include "common/model/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/columns.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/runtime/range.h"

namespace ladder {
namespace {

// The polynomial a x + b x^3 + c x^5 brings singular values of (0, 1] near 1: applied five times,
// it brings those from 0.01 on into [0.68, 1.14]. [Jordan24]
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr double kTiny = 1e-7;  // added to the norm, which may be 0

}  // namespace

std::vector<MuonMatrix> muon_matrices(const OptimizerConfig& config, const Parameter& parameter) {
  const size_t count = num_matrices(config, parameter.matrix);
  const size_t columns = parameter.full_shape[1] / count;
  std::vector<MuonMatrix> matrices;
  for (size_t i = 0; i < count; ++i) {
    matrices.push_back({&parameter, parameter.full_shape[0], columns, i * columns});
  }
  return matrices;
}

double muon_scale(MuonScale scale, const MuonMatrix& matrix) {
  const auto outputs = static_cast<double>(matrix.outputs());
  const auto inputs = static_cast<double>(matrix.inputs());
  return scale == MuonScale::spectral ? std::sqrt(std::max(1.0, outputs / inputs))
                                      : 0.2 * std::sqrt(std::max(outputs, inputs));
}

Muon::Muon(Memory& memory, const OptimizerConfig& config, DType dtype,
           const std::vector<const Parameter*>& parameters)
    : config_(config) {
  size_t largest = 0, side = 0;
  for (const Parameter* parameter : parameters) {
    if (!is_muons(parameter->matrix)) continue;
    for (const MuonMatrix& matrix : muon_matrices(config, *parameter)) {
      largest = std::max(largest, matrix.rows * matrix.columns);
      side = std::max(side, std::min(matrix.rows, matrix.columns));
    }
  }
  if (largest == 0) return;
  const auto make = [&](size_t elements, DType of) {
    return Tensor(memory, Category::workspace, of, {elements});
  };
  const DType outside = accumulation_dtype(dtype);
  matrix_ = make(largest, outside), next_ = make(largest, dtype);
  if (dtype != outside) x_ = make(largest, dtype);
  gram_ = make(side * side, dtype), square_ = make(side * side, dtype);
  partial_sums_ = make(sum_workspace_elements(largest), DType::fp64), sum_ = make(1, DType::fp64);
}

TensorView Muon::orthogonalize(Stream& stream, TensorView matrix) {
  ++num_calls_;
  const size_t n = matrix.num_elements(), rows = matrix.shape()[0], columns = matrix.shape()[1];
  squared_norms(stream, sum_, partial_sums_, {matrix.reshape({n})});
  double square = 0;
  copy(stream, TensorView(&square, DType::fp64, DeviceType::cpu, {1}), sum_);
  stream.synchronize();
  scale(stream, matrix, matrix, 1 / (std::sqrt(square) + kTiny));
  const bool is_flat = rows <= columns;
  const size_t side = std::min(rows, columns);
  const TensorView gram = gram_.view().elements(0, {side, side});
  const TensorView squared = square_.view().elements(0, {side, side});
  TensorView x = matrix, next = next_.view().elements(0, matrix.shape());
  if (next.dtype() != x.dtype()) {
    x = x_.view().elements(0, matrix.shape());
    cast(stream, x, matrix);
  }
  for (int i = 0; i < kIterations; ++i) {
    matmul(stream, gram, x, x, {.transpose_a = !is_flat, .transpose_b = is_flat});
    matmul(stream, squared, gram, gram);
    scale(stream, squared, squared, kC);
    add_scaled(stream, gram, gram, kB, squared);
    scale(stream, next, x, kA);
    matmul(stream, next, is_flat ? gram : x, is_flat ? x : gram, {.accumulate = true});
    std::swap(x, next);
  }
  return x;
}

void Muon::orthogonalize_all(Stream& stream, const Parameter& parameter, TensorView whole,
                             double learning_rate) {
  const Range range(stream, parameter.name, "Muon");
  double factor = 0;  // the same for q, k and v
  for (const MuonMatrix& matrix : muon_matrices(config_, parameter)) {
    const TensorView x = matrix_.view().elements(0, {matrix.rows, matrix.columns});
    copy_columns(stream, x, 0, whole, matrix.first_column, matrix.columns);
    copy_columns(stream, whole, matrix.first_column, orthogonalize(stream, x), 0, matrix.columns);
    factor = muon_scale(config_.muon_scale, matrix);
  }
  scale(stream, whole, whole, -learning_rate * factor);
}

void muon_blend(Stream& stream, TensorView blended, TensorView momentum, ConstTensorView grad,
                double decay, double grad_scale) {
  scale(stream, blended, grad, grad_scale);
  add_scaled(stream, momentum, momentum, decay, blended);
  add_scaled(stream, blended, momentum, decay, blended);
}

void muon_move(Stream& stream, TensorView param, TensorView copy, ConstTensorView moved,
               double keep) {
  add_scaled(stream, param, param, keep, moved);
  if (!copy.empty()) cast(stream, copy, param);
}

}  // namespace ladder
