// The least work that a training step must do: its matrix products and AdamW. Benchmarks compare
// steps with it; nothing else uses it.
#pragma once

#include <functional>
#include <vector>

#include "common/model/config.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// A linear layer multiplies x (R, in) by its weights W (in, out), where R is the number of rows
// (tokens) of a micro-batch. The floor is the sum of
//   - for each linear layer: forward x W, the input gradient dout W^T and the weight gradient x^T
//     dout, together 6 R |W| FLOP. Each layer has weights of its own, so that none is in a cache;
//   - AdamW on P elements, which reads the parameter, both moments and the gradient, and writes all
//     of them but the gradient.
//
// In fp32 and fp64 weight gradients are added to what is there. In bf16 and fp16 weights,
// activations and logits have that dtype, and weight gradients are overwritten, in fp32. AdamW then
// updates fp32 masters (28 P bytes), and nothing rounds them, which is less than a step must do.
class StepFloor {
 public:
  struct Layer {
    size_t rows, in, out;
    bool transposed = false;  // whether the weights are stored as (out, in), as the classifier's
  };
  // Returns the linear layers of a model for micro-batches of `rows` rows: the classifier, and
  // those of each transformer block. Of a block with experts it returns those of attention alone:
  // how many rows an expert has is up to the router.
  static std::vector<Layer> layers_of(const ModelConfig& config, size_t rows);

  // The floor of a model without experts.
  StepFloor(const ModelConfig& config, DType dtype, size_t rows,
            DeviceType device = DeviceType::cpu);
  // The floor of these layers, with AdamW on num_parameters elements. REQUIRES: there are at least
  // as many as the layers have.
  StepFloor(std::vector<Layer> layers, size_t num_parameters, DType dtype, DeviceType device);

  // Sets the number of rows of a layer. REQUIRES: at most as many as it was made with.
  void set_rows(size_t layer, size_t rows) { layers_[layer].rows = rows; }
  // Does the work once, and returns when it has run. After each layer it calls after_layer with the
  // layer's index, if that is given.
  void run(const std::function<void(size_t)>& after_layer = {});
  // Moves the bytes that one of `ranks` ranks moves in an all_reduce of the gradients, without
  // peers: it adds up the parts of its own buffer and writes the sum to all of them.
  void all_reduce(size_t ranks);

 private:
  // Multiplies as a layer does, whose weights begin at element `first_weight`.
  void multiply(const Layer& layer, size_t first_weight);
  bool accumulates() const { return masters_.view().empty(); }

  std::vector<Layer> layers_;
  Memory memory_;
  Stream stream_;
  Tensor weights_, gradients_, exp_avg_, exp_avg_sq_;
  Tensor masters_;  // only in bf16 and fp16
  Tensor in_, out_, din_;
};

}  // namespace ladder
