// Buckets as in lesson 02 whose sums travel encoded.
#pragma once

#include <deque>
#include <vector>

#include "common/comm/compressed.h"
#include "lessons/02_ddp/buckets.h"
#include "lessons/12_gradient_compression/compression_sync.h"

namespace ladder {

class CompressedSync final : public CompressionSync {
 public:
  struct Options {
    Codec codec = {};
    bool error_feedback = false;
    bool stochastic_rounding = false;
    bool overlap = true;  // false: no sum starts before wait()
  };
  // The context, the state and what they refer to must outlive this object.
  CompressedSync(const TrainerContext& context, ModelState& state, std::vector<Bucket> buckets,
                 const Options& options);

  Hooks hooks() override;
  void wait() override;

 private:
  // Starts the sum of a bucket in the background.
  void start(size_t bucket);

  Communicator& ranks_;
  std::vector<Bucket> buckets_;
  bool overlap_;
  CompressedAreas areas_;
  std::deque<CompressedSum> sums_;  // of each bucket
  size_t next_ = 0;                 // the first bucket that has not been started
  std::vector<Work> started_;
};

}  // namespace ladder
