#include "common/train/step_floor.h"

#include <algorithm>

#include "common/model/description.h"
#include "kernels/adamw.h"
#include "kernels/collective.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"

namespace ladder {

StepFloor::StepFloor(const Gpt2Config& config, DType dtype, size_t rows, DeviceType device)
    : config_(config), rows_(rows), memory_(device, "floor", 0), stream_(device) {
  const auto make = [&](size_t elements, DType type) {
    Tensor tensor(memory_, Category::workspace, type, {elements});
    fill_normal(stream_, tensor, elements, 0, 0.02);
    return tensor;
  };
  const DType full = accumulation_dtype(dtype);
  const size_t num_parameters = describe(config).num_parameters();
  const size_t inner = std::max(config.hidden, config.ffn_size());
  const size_t widest = std::max({3 * config.hidden, inner, config.vocab_size});
  weights_ = make(num_parameters, dtype);
  if (dtype != full) masters_ = make(num_parameters, full);
  gradients_ = make(num_parameters, full);
  exp_avg_ = make(num_parameters, full);
  exp_avg_sq_ = make(num_parameters, full);
  fill(stream_, exp_avg_sq_, 1);
  in_ = make(rows * inner, dtype);
  out_ = make(rows * widest, dtype);
  din_ = make(rows * inner, dtype);
}

void StepFloor::layer(size_t in, size_t out, size_t first_weight) {
  const Shape weight_shape = {in, out};
  const TensorView w = weights_.view().elements(first_weight, weight_shape);
  const TensorView dw = gradients_.view().elements(first_weight, weight_shape);
  const TensorView x = in_.view().elements(0, {rows_, in});
  const TensorView y = out_.view().elements(0, {rows_, out});
  matmul(stream_, y, x, w);
  matmul(stream_, din_.view().elements(0, {rows_, in}), y, w, {.transpose_b = true});
  matmul(stream_, dw, x, y, {.transpose_a = true, .accumulate = accumulates()});
}

void StepFloor::run() {
  const size_t c = config_.hidden, v = config_.vocab_size, f = config_.ffn_size();
  const TensorView x = in_.view().elements(0, {rows_, c});
  const TensorView logits = out_.view().elements(0, {rows_, v});
  const TensorView wte = weights_.view().elements(0, {v, c});
  matmul(stream_, logits, x, wte, {.transpose_b = true});
  matmul(stream_, din_.view().elements(0, {rows_, c}), logits, wte);
  matmul(stream_, gradients_.view().elements(0, {v, c}), logits, x,
         {.transpose_a = true, .accumulate = accumulates()});
  for (size_t l = 0; l < config_.num_layers; ++l) {
    const size_t first = v * c + l * (4 * c * c + 2 * c * f);
    layer(c, 3 * c, first);
    layer(c, c, first + 3 * c * c);
    layer(c, f, first + 4 * c * c);
    layer(f, c, first + 4 * c * c + c * f);
  }
  const Tensor& updated = accumulates() ? weights_ : masters_;
  adamw(stream_, updated, exp_avg_, exp_avg_sq_, gradients_, AdamWStep{.learning_rate = 1e-6});
  stream_.synchronize();
}

void StepFloor::all_reduce(size_t ranks) {
  const size_t each = gradients_.view().num_elements() / ranks;
  std::vector<TensorView> parts;
  for (size_t r = 0; r < ranks; ++r) parts.push_back(gradients_.view().rows(r * each, each));
  reduce_to_all(parts, Reduction::sum);
}

}  // namespace ladder
