// Muon: momentum whose matrices are made orthogonal.
#pragma once

#include <cstdint>
#include <vector>

#include "common/model/optimizer.h"

namespace ladder {

// One matrix, and where it lies in its parameter: in `columns` columns from first_column on.
struct MuonMatrix {
  const Parameter* parameter;
  size_t rows, columns, first_column;

  size_t outputs() const { return parameter->matrix.out_first ? rows : columns; }
  size_t inputs() const { return parameter->matrix.out_first ? columns : rows; }
};

// Returns whether Muon updates the parameter. It leaves embeddings, the classifier, routers,
// adapters and all vectors to AdamW.
inline bool is_muons(const OptimizerConfig& config, const Parameter& parameter) {
  return config.kind == OptimizerKind::muon && parameter.matrix.count > 0;
}

// Returns the matrices of a parameter that is_muons(): one, or q, k and v. These are three linear
// maps that are stored side by side. Together they would get one size of update between them, and
// the columns of one would be made orthogonal to those of another, which they never meet.
std::vector<MuonMatrix> muon_matrices(const OptimizerConfig& config, const Parameter& parameter);

// Returns what a matrix's update is multiplied with (MuonScale).
double muon_factor(MuonScale scale, const MuonMatrix& matrix);

// A whole parameter with its momentum and its gradient. All are (n).
struct MuonTensors {
  const Parameter* parameter;
  TensorView param, momentum;  // in fp32 or fp64
  ConstTensorView grad;        // in the same dtype
  TensorView copy = {};        // of the parameter, in 16 bits; empty: there is none
};

// Muon updates whole matrices: a part of one cannot be made orthogonal. With M the momentum, B the
// matrix and G its gradient, times the factor of clipping:
//   M = momentum M + G;  U = orthogonal(momentum M + G)  (Nesterov)
//   B = (1 - learning_rate weight_decay) B - learning_rate factor U
// [Jordan24; Liu25, Muon is scalable for LLM training]
class Muon {
 public:
  static constexpr int kIterations = 5;

  // Allocates workspace for the largest of these parameters that Muon updates; none if there are
  // none. Category: workspace.
  Muon(Memory& memory, const OptimizerConfig& config, DType dtype,
       const std::vector<const Parameter*>& parameters);

  // Updates a parameter. Synchronizes the stream once for each matrix, for its norm.
  void update(Stream& stream, const MuonTensors& tensors, const AdamWStep& step);

  // Brings the singular values of a matrix near 1 and keeps its singular vectors. It is divided by
  // its norm. Then, kIterations times, X becomes a X + b (A X) + c (A A X), where A = X X^T; where
  // there are more rows than columns, A = X^T X stands on the other side. Overwrites `matrix`. The
  // result is in the workspace and stays there until the next call.
  TensorView orthogonalize(Stream& stream, TensorView matrix);

  int64_t num_calls() const { return num_calls_; }  // of orthogonalize() so far

 private:
  OptimizerConfig config_;
  int64_t num_calls_ = 0;
  Tensor blended_;             // (n) of a parameter: what is made orthogonal
  Tensor matrix_, other_;      // (n) of a matrix, twice
  Tensor gram_, square_;       // (k k), where k is the smaller side
  Tensor partial_sums_, sum_;  // of the norm, fp64
};

}  // namespace ladder
