// What several tensor-parallel ranks have copies of, while they split the heads: heads of k and v,
// where there are fewer of them than ranks, and the weights that norm q and k, which all heads
// share. Each rank computes the part of their gradients that comes from its own heads.
#pragma once

#include <vector>

#include "common/comm/communicator.h"
#include "common/model/slices.h"
#include "common/train/trainer/trainer.h"

namespace ladder {

class HeadCopies {
 public:
  // Allocates workspace for the gradients of the layout's largest copied parameters. `ranks` is the
  // tensor-parallel group, which must outlive this object.
  HeadCopies(const TrainerContext& context, const Layout& layout, Communicator& ranks);

  // Sums the gradients of copied parameters (Parameter::copies) over the ranks that have them, in
  // the order of the ranks: all get the same bits. With c copies a rank sends 2 (c - 1) / c of its
  // elements to others, as in an all_reduce. `gradients` is a flat buffer of layout.trained(), in
  // which every rank has only its own part. It waits for the other ranks on the stream.
  void sum(Stream& stream, TensorView gradients);

 private:
  // Gradients that lie together, and the ranks that have a copy: so many consecutive ones.
  struct Copied {
    FlatRange range;
    size_t copies;
  };
  void sum_range(Stream& stream, TensorView range, size_t copies);
  // Sends to rank `to`, and receives from rank `from`.
  void exchange(Stream& stream, size_t to, ConstTensorView sent, size_t from, TensorView received);

  Communicator& ranks_;
  std::vector<Copied> copied_;
  Tensor parts_;  // from each rank with a copy, what it has of the elements that this rank sums
};

}  // namespace ladder
