// Muon: momentum whose matrices are made orthogonal.
#pragma once

#include <cstdint>
#include <vector>

#include "common/model/optimizer.h"

namespace ladder {

// One matrix, and where it lies in the whole parameter: in `columns` columns from first_column on.
struct MuonMatrix {
  const Parameter* parameter;
  size_t rows, columns, first_column;

  size_t outputs() const { return parameter->matrix.out_first ? rows : columns; }
  size_t inputs() const { return parameter->matrix.out_first ? columns : rows; }
};

// Returns whether the parameter is Muon's in a run with it. It leaves embeddings, the classifier,
// routers, adapters and all vectors to the next rule.
inline bool is_muons(const MatrixForm& form) { return form.count > 0; }

// Returns how many matrices such a parameter is.
inline size_t num_matrices(const OptimizerConfig& config, const MatrixForm& form) {
  return config.splits_qkv ? form.count : 1;
}
// Returns these matrices: one, or q, k and v. These are three linear maps that are stored side by
// side. Together they would get one size of update between them.
std::vector<MuonMatrix> muon_matrices(const OptimizerConfig& config, const Parameter& parameter);

// Returns the scale of a matrix's update (MuonScale).
double muon_scale(MuonScale scale, const MuonMatrix& matrix);

// With M the momentum of a weight B, and G its gradient times grad_scale (clipping), Muon is
//   M = decay M + G;  U = orthogonal(decay M + G)  (Nesterov)
//   B = (1 - learning_rate weight_decay) B - learning_rate scale U
// All of it but orthogonal() works element by element, so each rank does it with the part of the
// matrix that it has. These two functions do that; all views are (n). Asynchronous.
// [Jordan24; Liu25, Muon is scalable for LLM training]

// Updates M, and sets `blended` = decay M + G.
void muon_blend(Stream& stream, TensorView blended, TensorView momentum, ConstTensorView grad,
                double decay, double grad_scale);
// Updates B with `moved` = - learning_rate scale U and `keep` = 1 - learning_rate weight_decay, and
// its copy in 16 bits unless that is empty.
void muon_move(Stream& stream, TensorView param, TensorView copy, ConstTensorView moved,
               double keep);

// Muon makes whole matrices orthogonal; a part of one cannot be.
class Muon {
 public:
  static constexpr int kIterations = 5;

  // Allocates workspace for the largest matrix of these parameters; none if there are none. The
  // iterations run in `dtype`; what comes and goes has its accumulation dtype. Category: workspace.
  Muon(Memory& memory, const OptimizerConfig& config, DType dtype,
       const std::vector<const Parameter*>& parameters);

  // Sets `whole`, a parameter's `blended` in its full shape, to what moves it: matrix by matrix,
  // - learning_rate scale U. Synchronizes the stream once for each matrix, for its norm.
  void orthogonalize_all(Stream& stream, const Parameter& parameter, TensorView whole,
                         double learning_rate);

  // Newton-Schulz: brings singular values near 1 and keeps singular vectors. The matrix is divided
  // by its norm. Then, kIterations times, X becomes a X + b (A X) + c (A A X), where A = X X^T;
  // where there are more rows than columns, A = X^T X stands on the other side. Overwrites
  // `matrix`. The result, in the dtype of the iterations, is in the workspace and stays there until
  // the next call.
  TensorView orthogonalize(Stream& stream, TensorView matrix);

  int64_t num_calls() const { return num_calls_; }  // of orthogonalize() so far

 private:
  OptimizerConfig config_;
  int64_t num_calls_ = 0;
  Tensor matrix_;              // (n) in the accumulation dtype
  Tensor x_, next_;            // (n); x_ is empty if matrix_ has the dtype of the iterations
  Tensor gram_, square_;       // (k k), where k is the smaller side
  Tensor partial_sums_, sum_;  // of the norm, fp64
};

}  // namespace ladder
