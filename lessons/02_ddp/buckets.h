// Gradients on their way to the other ranks, bucket by bucket, while backward goes on.
#pragma once

#include <cstddef>
#include <vector>

#include "common/comm/communicator.h"
#include "common/model/hooks.h"
#include "common/model/layout.h"

namespace ladder {

// A span of the flat gradient buffer: whole units, which become final one after the other.
struct Bucket {
  size_t last_unit = 0;  // final last: the bucket is ready when this unit is
  size_t offset = 0;     // elements
  size_t num_elements = 0;
};

// The units from the last to the first, which is the order in which backward finishes them, in
// buckets of at least `bucket_bytes`. The token embedding, which is final at the very end, is a
// bucket of its own: nothing can be hidden behind it, so it should hold nothing else up.
std::vector<Bucket> make_buckets(const Layout& layout, DType dtype, size_t bucket_bytes);

// Sums the gradients of all ranks. Every rank has the same buckets, so all start them in the same
// order.
class BucketReducer {
 public:
  // gradients: the flat buffer. Without `overlap` nothing starts before wait(). `reduced`: a buffer
  // of the same extent and another dtype in which they are summed, rounded before and widened
  // after; empty: where they are.
  BucketReducer(TensorView gradients, Communicator& world, std::vector<Bucket> buckets,
                bool overlap, TensorView reduced = {});

  // For the last micro-batch's backward, once a step: starts each bucket as soon as it is final.
  // REQUIRES: wait() before the next backward.
  Hooks hooks(Stream& stream);
  // Returns when all buckets are summed. Starts those that have not been started in this step.
  void wait(Stream& stream);

 private:
  void start(Stream& stream, const Bucket& bucket);

  TensorView gradients_, reduced_;
  Communicator& world_;
  std::vector<Bucket> buckets_;
  bool overlap_;
  size_t next_ = 0;  // the bucket that is ready next
  std::vector<Work> started_;
};

}  // namespace ladder
