// Buckets: several units' gradients are sent to the other ranks together, while backward goes on.
#pragma once

#include <vector>

#include "common/comm/communicator.h"
#include "common/train/trainer/gradient_sync.h"
#include "common/train/trainer/model_state.h"

namespace ladder {

// A bucket is a span of the flat gradient buffer. It has whole units, whose gradients become final
// one after the other.
struct Bucket {
  size_t last_unit = 0;  // the unit that becomes final last; then the bucket is ready
  size_t offset = 0;     // the element of the buffer at which the bucket begins
  size_t num_elements = 0;
};

// Fills buckets of at least `bucket_bytes` with units that are trained, in the order in which
// backward makes their gradients final. The unit that becomes final last gets a bucket of its own:
// no computation is left that could overlap with its sum, and units that shared its bucket would
// have to wait for it.
std::vector<Bucket> make_buckets(const Layout& layout, DType dtype, size_t bucket_bytes);

// BucketSync sums the gradients of all ranks bucket by bucket; then every rank makes the same
// update. [Li20, PyTorch Distributed] Every rank has the same buckets, so all start them in the
// same order.
class BucketSync final : public GradientSync {
 public:
  struct Options {
    bool overlap = true;  // false: no sum starts before wait()
    // The flat buffer that has the gradients when they become final. If it is empty, they are in
    // the state's own gradients.
    TensorView gradients = {};
  };
  // `ranks` are those that hold the same part of the model. The state and `ranks` must outlive this
  // object. REQUIRES: the state has whole parameters, gradients and moments.
  BucketSync(ModelState& state, Communicator& ranks, std::vector<Bucket> buckets,
             const Options& options);

  Hooks hooks() override;
  void wait() override;
  TensorView summed(size_t unit) const override;
  double update(double norm) override { return state_.update(norm); }

 private:
  // Starts the bucket's all_reduce in the background.
  void start(const Bucket& bucket);

  ModelState& state_;
  Communicator& ranks_;
  std::vector<Bucket> buckets_;
  bool overlap_;
  TensorView gradients_;
  size_t next_ = 0;  // the first bucket that has not been started
  std::vector<Work> started_;
};

}  // namespace ladder
