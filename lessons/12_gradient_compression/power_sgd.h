// PowerSGD: gradients of matrices as products of two thin ones. [Vogels19]
#pragma once

#include <vector>

#include "lessons/02_ddp/buckets.h"
#include "lessons/12_gradient_compression/compression_sync.h"

namespace ladder {

// How a bucket is sent. First go its vectors (biases, layernorms) as they are, and a thin matrix
// P^T for each matrix; then a thin matrix Q^T for each. A matrix whose thin ones would have no
// fewer elements counts as a vector.
struct PowerSgdBucket {
  struct Matrix {
    const Parameter* parameter;
    size_t offset;         // of its first element in the flat buffer
    size_t rows, columns;  // n and m
    size_t p, q;           // where P^T (r, n) and Q^T (r, m) begin in the two messages
  };
  struct Vector {
    size_t offset, elements, at;  // in the flat buffer, and where it begins in the first message
  };
  size_t last_unit = 0;  // as in Bucket
  std::vector<Matrix> matrices;
  std::vector<Vector> vectors;
  size_t first_elements = 0, second_elements = 0;  // of the two messages
};
std::vector<PowerSgdBucket> make_power_sgd_buckets(const Layout& layout,
                                                   const std::vector<Bucket>& buckets, size_t rank);

// PowerSgdSync sums gradients approximately. For each matrix, M_s is rank s's gradient plus what it
// has held back:
//   P = sum of M_s Q, its columns made orthonormal;  Q_s = M_s^T P;  Q = sum of Q_s
//   the sum becomes P Q^T, and rank s holds back M_s - P Q_s^T
// What is applied and what is held make up the sum of all gradients, because P is the same on all
// ranks.
//
// Q begins as E^T times random numbers, where E is the first buffer of the optimizer: with AdamW
// its first moment, whose rows span what gradients have lately spanned. (The paper begins with the
// last step's Q. The moment is in every checkpoint, so a run that resumes has the same bits.) In
// the first step, and if the optimizer keeps nothing, Q itself is random.
class PowerSgdSync final : public CompressionSync {
 public:
  // `rank` is the number of columns of P and Q. The context, the state and what they refer to must
  // outlive this object.
  PowerSgdSync(const TrainerContext& context, ModelState& state, const std::vector<Bucket>& buckets,
               size_t rank, bool overlap);

  Hooks hooks() override;
  void wait() override;

 private:
  // The three stages of a bucket. The last two wait for the message of the one before.
  void send_first(size_t bucket);
  void send_second(size_t bucket);
  void decode(size_t bucket);
  // Brings bucket `bucket` to its first stage, the one before to its second, and so on.
  void advance(size_t bucket);
  void begin_q(const PowerSgdBucket::Matrix& matrix, TensorView q);
  // Returns the matrix in a flat buffer.
  TensorView in_flat(const PowerSgdBucket::Matrix& matrix, TensorView flat) const;
  TensorView p_of(const PowerSgdBucket::Matrix& matrix, size_t bucket) const;
  TensorView q_of(const PowerSgdBucket::Matrix& matrix, size_t bucket) const;

  Communicator& ranks_;
  uint64_t seed_;
  size_t rank_;
  bool overlap_;
  std::vector<PowerSgdBucket> buckets_;
  std::vector<Tensor> first_, second_;          // the messages of each bucket
  Tensor scratch_;                              // (rank, rows) of the matrix with most rows
  std::vector<Work> first_sums_, second_sums_;  // of each bucket
  size_t next_ = 0;                             // the first bucket that has not been started
};

}  // namespace ladder
