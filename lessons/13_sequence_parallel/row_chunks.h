// Rows that ranks gather and scatter chunk by chunk, so that the product of one chunk can run while
// the next one is on its way.
#pragma once

#include "common/comm/communicator.h"
#include "common/model/tensor_parallel.h"
#include "common/train/trainer.h"

namespace ladder {

// RowChunks moves rows between the ranks of a group, of which each has its pieces of all chunks
// (row_split.h). With one chunk every call is one operation, which has ended when the call returns,
// unless it is queued on a device. With several chunks the operations run in the background.
class RowChunks {
 public:
  using Coming = TensorParallel::Coming;

  // Several chunks need memory for the rows of one rank, of `num_rows`, the most in a micro-batch.
  RowChunks(const TrainerContext& context, Communicator& ranks, size_t num_rows, size_t num_chunks);

  // Returns which rows this rank has.
  const RowSplit& split() const { return split_; }

  // Gathers the rows of all ranks into `all`, which has memory for their padding, too. `own` has
  // this rank's rows. Calls use() for each chunk when it has come. Returns all rows.
  ConstTensorView gather(Stream& stream, TensorView all, ConstTensorView own,
                         const TensorParallel::WithRows& use) const;
  // Only begins to gather them.
  Coming begin_gather(Stream& stream, TensorView all, ConstTensorView own) const;

  // Sums `partial` over the ranks, chunk by chunk: calls make(), which computes the chunk, and
  // begins to sum it. Each rank gets the sums of its own rows. They lie in `partial` if there is
  // one chunk, else in memory of this object until the next call.
  Coming begin_scatter(Stream& stream, TensorView partial,
                       const TensorParallel::MakeRows& make = kNoProduct) const;

 private:
  Work begin_gather(Stream& stream, TensorView all, ConstTensorView own, size_t chunk) const;
  // Returns all ranks' pieces of a chunk, with their padding, and the chunk without padding.
  TensorView padded(TensorView all, size_t chunk) const;
  RowChunk chunk_of(size_t num_rows, size_t chunk) const;

  Communicator& ranks_;
  RowSplit split_;
  CallOptions options_;
  Tensor own_sums_;
};

}  // namespace ladder
