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
  check(parameter.shape == parameter.full_shape, "muon_matrices: a part of a matrix");
  const size_t count = config.splits_qkv ? parameter.matrix.count : 1;
  const size_t columns = parameter.shape[1] / count;
  std::vector<MuonMatrix> matrices;
  for (size_t i = 0; i < count; ++i) {
    matrices.push_back({&parameter, parameter.shape[0], columns, i * columns});
  }
  return matrices;
}

double muon_factor(MuonScale scale, const MuonMatrix& matrix) {
  const auto outputs = static_cast<double>(matrix.outputs());
  const auto inputs = static_cast<double>(matrix.inputs());
  return scale == MuonScale::spectral ? std::sqrt(std::max(1.0, outputs / inputs))
                                      : 0.2 * std::sqrt(std::max(outputs, inputs));
}

Muon::Muon(Memory& memory, const OptimizerConfig& config, DType dtype,
           const std::vector<const Parameter*>& parameters)
    : config_(config) {
  size_t whole = 0, largest = 0, side = 0;
  for (const Parameter* parameter : parameters) {
    if (!is_muons(config, *parameter)) continue;
    whole = std::max(whole, parameter->shape.num_elements());
    for (const MuonMatrix& matrix : muon_matrices(config, *parameter)) {
      largest = std::max(largest, matrix.rows * matrix.columns);
      side = std::max(side, std::min(matrix.rows, matrix.columns));
    }
  }
  if (whole == 0) return;
  const auto make = [&](size_t elements, DType of) {
    return Tensor(memory, Category::workspace, of, {elements});
  };
  blended_ = make(whole, dtype);
  matrix_ = make(largest, dtype), other_ = make(largest, dtype);
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
  TensorView x = matrix, next = other_.view().elements(0, matrix.shape());
  for (int i = 0; i < kIterations; ++i) {
    matmul(stream, gram, x, x, {.transpose_a = !is_flat, .transpose_b = is_flat});
    matmul(stream, squared, gram, gram);
    scale(stream, squared, squared, kC);
    scale(stream, gram, gram, kB);
    add(stream, gram, gram, squared);
    scale(stream, next, x, kA);
    matmul(stream, next, is_flat ? gram : x, is_flat ? x : gram, {.accumulate = true});
    std::swap(x, next);
  }
  return x;
}

void Muon::update(Stream& stream, const MuonTensors& tensors, const AdamWStep& step) {
  const auto& [parameter, param, momentum, grad, rounded] = tensors;
  const Range range(stream, parameter->name, "Muon");
  const TensorView blended = blended_.view().rows(0, param.num_elements());
  // `blended` has G first, and then, matrix by matrix, what is added to the parameter.
  scale(stream, momentum, momentum, config_.muon_momentum);
  scale(stream, blended, grad, step.grad_scale);
  add(stream, momentum, momentum, blended);
  // param is decayed before its matrices move.
  scale(stream, param, param, 1 - step.learning_rate * step.weight_decay);
  const auto whole = [&](TensorView view) { return view.reshape(parameter->shape); };
  for (const MuonMatrix& matrix : muon_matrices(config_, *parameter)) {
    const Shape shape = {matrix.rows, matrix.columns};
    const TensorView x = matrix_.view().elements(0, shape), g = other_.view().elements(0, shape);
    copy_columns(stream, x, 0, whole(momentum), matrix.first_column, matrix.columns);
    copy_columns(stream, g, 0, whole(blended), matrix.first_column, matrix.columns);
    scale(stream, x, x, config_.muon_momentum);
    add(stream, x, x, g);
    const TensorView updated = orthogonalize(stream, x);
    scale(stream, updated, updated, -step.learning_rate * muon_factor(config_.muon_scale, matrix));
    copy_columns(stream, whole(blended), matrix.first_column, updated, 0, matrix.columns);
  }
  add(stream, param, param, blended);
  if (!rounded.empty()) cast(stream, rounded, param);
}

}  // namespace ladder
