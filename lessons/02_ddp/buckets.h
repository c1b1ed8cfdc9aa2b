// Gradients travel to the other ranks bucket by bucket, while backward goes on.
#pragma once

#include <vector>

#include "common/comm/communicator.h"
#include "common/train/gradient_sync.h"
#include "common/train/model_state.h"

namespace ladder {

// A span of the flat gradient buffer: whole units, whose gradients become final one after the
// other.
struct Bucket {
  size_t last_unit = 0;  // the one that becomes final last: the bucket is ready when this unit is
  size_t offset = 0;     // elements
  size_t num_elements = 0;
};

// Units in the order in which backward makes their gradients final, in buckets of at least
// `bucket_bytes`. The unit that becomes final last gets a bucket of its own: no computation is left
// that could overlap with its sum, and units that shared its bucket would have to wait for it.
std::vector<Bucket> make_buckets(const Layout& layout, DType dtype, size_t bucket_bytes);

// Sums the gradients of all ranks in buckets; then every rank makes the same update. [Li20, PyTorch
// Distributed] Every rank has the same buckets, so all start them in the same order.
class BucketSync final : public GradientSync {
 public:
  struct Options {
    bool overlap = true;  // false: nothing starts before wait()
    // A buffer with the layout of the gradients that holds them when they become final; empty: the
    // state's own.
    TensorView gradients = {};
  };
  // REQUIRES: a state with whole parameters, gradients and moments. `ranks`: those that hold it.
  BucketSync(ModelState& state, Communicator& ranks, std::vector<Bucket> buckets,
             const Options& options);

  Hooks hooks() override;
  void wait() override;
  TensorView summed(size_t unit) const override;
  void update(const AdamWStep& step) override { state_.update(step); }

 private:
  void start(const Bucket& bucket);

  ModelState& state_;
  Communicator& ranks_;
  std::vector<Bucket> buckets_;
  bool overlap_;
  TensorView gradients_;
  size_t next_ = 0;  // the bucket that is ready next
  std::vector<Work> started_;
};

}  // namespace ladder
