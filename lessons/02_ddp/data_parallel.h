// A rank's share of the global batch.
#pragma once

#include <functional>

#include "common/comm/communicator.h"
#include "common/train/trainer/model_runner.h"

namespace ladder {

// DataParallel says which sequences a rank runs: rank r of N runs the r-th N-th of every global
// batch.
class DataParallel {
 public:
  DataParallel(const RunConfig& config, Communicator& ranks) : config_(config), ranks_(ranks) {}

  // This rank runs sequences [first(), end()) of the global batch.
  size_t num_sequences() const { return config_.global_batch_size / ranks_.size(); }
  size_t first() const { return ranks_.rank() * num_sequences(); }
  size_t end() const { return first() + num_sequences(); }
  // Returns whether the micro-batch that begins with this sequence is the rank's last one in a
  // step.
  bool is_last(size_t sequence) const { return sequence + config_.micro_batch_size == end(); }

  // Returns the mean loss over global batches of the validation split, the same on every rank.
  // `hooks` returns the hooks of one micro-batch. Collective.
  double evaluate(
      ModelRunner& model, size_t num_batches,
      const std::function<Hooks()>& hooks = [] { return Hooks(); }) const;

 private:
  const RunConfig& config_;
  Communicator& ranks_;
};

}  // namespace ladder
