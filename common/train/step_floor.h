// The least work that a training step must do: its matrix products and AdamW. Benchmarks compare
// steps with it; nothing else uses it.
#pragma once

#include <vector>

#include "common/model/config.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// The model has L layers of hidden size C and P parameters, and a micro-batch has R rows (tokens).
// Each product has weights of its own, so that none is in a cache. The floor is the sum of
//   - for each of the 4 L linear layers, whose weights W are (C, 3C), (C, C), (C, 4C) and (4C, C),
//     and for the tied classifier: forward x W, the input gradient dout W^T and the weight gradient
//     x^T dout, together 6 R |W| FLOP;
//   - AdamW on P elements, which reads the parameter, both moments and the gradient, and writes all
//     of them but the gradient.
//
// In fp32 and fp64 weight gradients are added to what is there. In bf16 and fp16 weights,
// activations and logits have that dtype, and weight gradients are overwritten, in fp32. AdamW then
// updates fp32 masters (28 P bytes), and nothing rounds them, which is less than a step must do.
class StepFloor {
 public:
  StepFloor(const Gpt2Config& config, DType dtype, size_t rows,
            DeviceType device = DeviceType::cpu);

  // Does the work once, and returns when it has run.
  void run();
  // Moves the bytes that one of `ranks` ranks moves in an all_reduce of the gradients, without
  // peers: it adds up the parts of its own buffer and writes the sum to all of them.
  void all_reduce(size_t ranks);

 private:
  void layer(size_t in, size_t out, size_t first_weight);
  bool accumulates() const { return masters_.view().empty(); }

  Gpt2Config config_;
  size_t rows_;
  Memory memory_;
  Stream stream_;
  Tensor weights_, gradients_, exp_avg_, exp_avg_sq_;
  Tensor masters_;  // only in bf16 and fp16
  Tensor in_, out_, din_;
};

}  // namespace ladder
