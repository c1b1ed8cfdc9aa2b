// The least that a training step can take: its matrix products and AdamW, nothing else. The scale
// for benchmarks of steps; for benchmarks only.
#pragma once

#include <vector>

#include "common/model/config.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// With L layers of hidden size C, vocabulary V, P parameters and R rows (tokens) in one
// micro-batch, each product on weights of its own, which are in no cache:
//   floor = sum over the 4 L linear layers (C, 3C), (C, C), (C, 4C), (4C, C) of W and the tied head
//           of forward x W, input gradient dout W^T and weight gradient x^T dout, 6 R |W| FLOP each
//         + AdamW on P elements: parameter, two moments and gradient read, all but the last written
//
// In fp32 and fp64 weight gradients are added to what is there. In bf16 and fp16 ("x"): weights,
// activations and logits are of x; weight gradients are overwritten, in fp32; AdamW updates fp32
// masters, 28 P bytes, and nothing rounds them: less than any step must do.
class StepFloor {
 public:
  StepFloor(const Gpt2Config& config, DType dtype, size_t rows,
            DeviceType device = DeviceType::cpu);

  // Returns when all has run.
  void run();
  // The memory traffic of one rank of `ranks` in an all_reduce of the gradients, without peers: the
  // parts of its own buffer are added up, and the sum is written to all of them.
  void all_reduce(size_t ranks);

 private:
  void layer(size_t in, size_t out, size_t first_weight);
  bool accumulates() const { return masters_.view().empty(); }

  Gpt2Config config_;
  size_t rows_;
  Memory memory_;
  Stream stream_;
  Tensor weights_, gradients_, exp_avg_, exp_avg_sq_;
  Tensor masters_;  // in low precision alone
  Tensor in_, out_, din_;
};

}  // namespace ladder
