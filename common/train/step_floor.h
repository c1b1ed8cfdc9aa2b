// The least that a training step can take: its matrix products and AdamW, nothing else. The scale
// for benchmarks of steps; for benchmarks only.
#pragma once

#include <vector>

#include "common/model/config.h"
#include "kernels/runtime/stream.h"

namespace ladder {

class StepFloor {
 public:
  // For `rows` = B T tokens in one micro-batch.
  StepFloor(const Gpt2Config& config, DType dtype, size_t rows,
            DeviceType device = DeviceType::cpu);

  // Forward, input gradient and weight gradient of every linear layer and of the tied head, each on
  // weights of its own, then AdamW on all parameters. Returns when they have run.
  void run();
  // The memory traffic of one rank of `ranks` in an all_reduce of the gradients, without peers: the
  // parts of its own buffer are added up, and the sum is written to all of them.
  void all_reduce(size_t ranks);

 private:
  void layer(size_t in, size_t out, size_t first_weight);

  Gpt2Config config_;
  size_t rows_;
  Memory memory_;
  Stream stream_;
  Tensor weights_, gradients_, exp_avg_, exp_avg_sq_;
  Tensor in_, out_, din_;
};

}  // namespace ladder
