// Tensor parallelism, as the model sees it.
#pragma once

#include "common/comm/communicator.h"

namespace ladder {

// The ranks that each hold a slice of every large tensor, and the two conjugate operators between
// what all of them hold (the residual stream) and what is sliced [Shoeybi19, section 3, f and g]:
//   f, before a product whose weight has its columns split: forward the identity; backward each
//   rank
//      has the gradient of its columns only, and the sum over ranks is that of the whole input.
//   g, after a product whose weight has its rows split: forward each rank has a part of the sum;
//      backward the identity.
// With one rank both are identities.
class TensorParallel {
 public:
  TensorParallel() = default;
  explicit TensorParallel(Communicator& ranks) : ranks_(ranks.size() > 1 ? &ranks : nullptr) {}

  // g: partial = the sum of all ranks' partial.
  void reduce_forward(Stream& stream, TensorView partial) const {
    all_reduce(stream, partial, Reduction::sum).wait(stream);
  }
  // f: the same of gradients. On a GPU it runs beside what is queued before it is waited for.
  Work reduce_backward(Stream& stream, TensorView partial) const {
    return all_reduce(stream, partial, Reduction::sum);
  }
  // Row numbers of the classifier, to which each rank adds what its slice of the vocabulary has.
  void reduce_rows(Stream& stream, TensorView numbers, Reduction reduction) const {
    all_reduce(stream, numbers, reduction).wait(stream);
  }

 private:
  Work all_reduce(Stream& stream, TensorView view, Reduction reduction) const {
    if (ranks_ == nullptr) return Work();
    return ranks_->all_reduce(stream, view,
                              {.purpose = Purpose::activation, .reduction = reduction});
  }

  Communicator* ranks_ = nullptr;  // null: one rank
};

}  // namespace ladder
