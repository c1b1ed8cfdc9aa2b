#include "common/train/bench/step_floor.h"

#include <algorithm>

#include "common/model/description.h"
#include "kernels/adamw.h"
#include "kernels/collective.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"

namespace ladder {

std::vector<StepFloor::Layer> StepFloor::layers_of(const ModelConfig& config, size_t rows) {
  std::vector<Layer> layers = {{rows, config.hidden, config.vocab_size, true}};
  for (size_t block = 0; block < config.num_layers; ++block) {
    for (const Sublayer& sublayer : sublayers_of(config, block)) {
      if (sublayer.num_experts > 0) continue;
      for (const Linear& linear : {sublayer.first, sublayer.second}) {
        layers.push_back({rows, linear.in, linear.out, linear.out_first});
      }
    }
  }
  return layers;
}

StepFloor::StepFloor(const ModelConfig& config, DType dtype, size_t rows, DeviceType device)
    : StepFloor(layers_of(config, rows), describe(config).num_parameters(), dtype, device) {}

StepFloor::StepFloor(std::vector<Layer> layers, size_t num_parameters, DType dtype,
                     DeviceType device)
    : layers_(std::move(layers)), memory_(device, "floor", 0), stream_(device) {
  const auto make = [&](size_t elements, DType type) {
    Tensor tensor(memory_, Category::workspace, type, {elements});
    fill_normal(stream_, tensor, elements, 0, 0.02);
    return tensor;
  };
  const DType full = accumulation_dtype(dtype);
  weights_ = make(num_parameters, dtype);
  if (dtype != full) masters_ = make(num_parameters, full);
  gradients_ = make(num_parameters, full);
  exp_avg_ = make(num_parameters, full);
  exp_avg_sq_ = make(num_parameters, full);
  fill(stream_, exp_avg_sq_, 1);
  size_t in = 0, out = 0;
  for (const Layer& layer : layers_) {
    in = std::max(in, layer.rows * layer.in);
    out = std::max(out, layer.rows * padded_columns(layer.out, device));
  }
  in_ = make(in, dtype);
  out_ = make(out, dtype);
  din_ = make(in, dtype);
}

void StepFloor::multiply(const Layer& layer, size_t first_weight) {
  const auto [rows, in, out, transposed] = layer;
  const Shape shape = transposed ? Shape{out, in} : Shape{in, out};
  const TensorView w = weights_.view().elements(first_weight, shape);
  const TensorView dw = gradients_.view().elements(first_weight, shape);
  const TensorView x = in_.view().elements(0, {rows, in});
  const TensorView dx = din_.view().elements(0, {rows, in});
  // As a step's logits: 50,257 columns side by side would cost a GPU several times as much.
  const size_t pitch = padded_columns(out, stream_.device());
  const TensorView y = out_.view().elements(0, {rows, pitch}).first_columns(out);
  matmul(stream_, y, x, w, {.transpose_b = transposed});
  matmul(stream_, dx, y, w, {.transpose_b = !transposed});
  matmul(stream_, dw, transposed ? y : x, transposed ? x : y,
         {.transpose_a = true, .accumulate = accumulates()});
}

void StepFloor::run(const std::function<void(size_t)>& after_layer) {
  size_t first_weight = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i].rows > 0) multiply(layers_[i], first_weight);
    if (after_layer) after_layer(i);
    first_weight += layers_[i].in * layers_[i].out;
  }
  const Tensor& updated = accumulates() ? weights_ : masters_;
  adamw(stream_, {{updated, exp_avg_, exp_avg_sq_, gradients_}}, {.learning_rate = 1e-6});
  stream_.synchronize();
}

void StepFloor::all_reduce(size_t ranks) {
  const size_t each = gradients_.view().num_elements() / ranks;
  std::vector<TensorView> parts;
  for (size_t r = 0; r < ranks; ++r) parts.push_back(gradients_.view().rows(r * each, each));
  reduce_to_all(parts, Reduction::sum);
}

}  // namespace ladder
