// What the model's tests share: a model with its memory, elements as doubles, comparison.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/model/model.h"
#include "common/model/optimizer.h"
#include "common/model/weights.h"
#include "kernels/elementwise.h"
#include "kernels/runtime/random.h"
#include "tests/catch.h"

namespace ladder::testing {

// Elements of any floating-point dtype, held exactly.
using Values = std::vector<double>;

inline constexpr DType kFloats[] = {DType::fp32, DType::fp64};

inline Memory& memory() {
  static Memory arena(DeviceType::cpu, "device", 0);
  return arena;
}

inline Stream& stream() {
  static Stream stream(DeviceType::cpu);
  return stream;
}

inline TensorView view_of(Values& values) {
  return {values.data(), DType::fp64, DeviceType::cpu, {values.size()}};
}
inline ConstTensorView view_of(const Values& values) {
  return {values.data(), DType::fp64, DeviceType::cpu, {values.size()}};
}

inline Values values_of(ConstTensorView tensor) {
  Values values(tensor.num_elements());
  cast(stream(), view_of(values), tensor.reshape({values.size()}));
  stream().synchronize();
  return values;
}

// Rounds the values to the tensor's dtype.
inline void set_values(TensorView tensor, const Values& values) {
  cast(stream(), tensor.reshape({values.size()}), view_of(values));
  stream().synchronize();
}

// The largest absolute value; NaN where there is one.
inline double largest(const Values& values) {
  double result = 0;
  for (double value : values) {
    if (std::isnan(value)) return value;
    result = std::max(result, std::abs(value));
  }
  return result;
}

// Normal numbers, the stream of numbers called `name`.
inline Values normal_values(size_t n, std::string_view name, double deviation) {
  const uint64_t key = random_key(1, name);
  Values values(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] = random_normal_integer(key, i) / kNormalDeviation * deviation;
  }
  return values;
}

// Token numbers (B, T) with an owner.
class Tokens {
 public:
  Tokens(size_t batch, size_t length, size_t vocab, std::string_view name)
      : length_(length), tokens_(batch * length) {
    const uint64_t key = random_key(1, name);
    for (size_t i = 0; i < tokens_.size(); ++i) {
      tokens_[i] = static_cast<int32_t>(random_below(vocab, random_word(key, i, 0)));
    }
  }
  Tokens(const Values& numbers, size_t length)
      : length_(length), tokens_(numbers.begin(), numbers.end()) {}

  // Rows [first, first + count).
  ConstTensorView rows(size_t first, size_t count) const {
    return {tokens_.data() + first * length_, DType::int32, DeviceType::cpu, {count, length_}};
  }
  ConstTensorView all() const { return rows(0, tokens_.size() / length_); }

 private:
  size_t length_;
  std::vector<int32_t> tokens_;
};

// The model with the Llama family's block: all heads of q share one of k and v, which is wider than
// usual; frequencies are stretched for 7 positions, and q, k and v have biases.
inline ModelConfig llama_like(ModelConfig config) {
  config.key_value_heads = 1;
  config.head_size = config.hidden / config.num_heads + 2;
  config.norm = Norm::rmsnorm;
  config.norm_epsilon = 1e-3;
  config.positions = Positions::rotary;
  config.rope_theta = 20;
  config.rope_scaling = Llama3Scaling{.factor = 4, .original_positions = 7};
  config.mlp = MlpCore::swiglu;
  config.biases = Biases::qkv;
  check_config(config);
  return config;
}

// The same with norms of q and k, and no biases.
inline ModelConfig qwen3_like(ModelConfig config) {
  config = llama_like(std::move(config));
  config.biases = Biases::none;
  config.qk_norm = QkNorm::rmsnorm;
  return config;
}

// A model with everything that one rank needs to train it.
struct TestModel {
  TestModel(const ModelConfig& config, DType dtype_, size_t batch, size_t tokens,
            size_t world_size = 1)
      : dtype(dtype_),
        layout(config, world_size),
        parameters(flat(Category::parameters)),
        gradients(flat(Category::gradients)),
        exp_avg(flat(Category::optimizer)),
        exp_avg_sq(flat(Category::optimizer)),
        activations(memory(), layout, dtype, batch, tokens),
        workspace(memory(), layout, dtype, batch, tokens),
        gpt2(layout, parameters, gradients) {}
  TestModel(const TestModel&) = delete;

  Tensor flat(Category category) const {
    return Tensor(memory(), category, dtype, {layout.num_elements()});
  }
  // Visits (parameter, its part of the flat buffer).
  template <class Body>
  void for_each(const Tensor& buffer, Body body) const {
    for (const Unit& unit : layout.units()) {
      for (const Parameter& parameter : unit.parameters) {
        body(parameter, buffer.view().elements(unit.offset + parameter.offset, parameter.shape));
      }
    }
  }
  // Normal numbers of this deviation in every parameter, about 1 for the scales of layernorms.
  void randomize(double deviation) const {
    for_each(parameters, [&](const Parameter& parameter, TensorView part) {
      Values values = normal_values(part.num_elements(), parameter.name, deviation);
      for (double& value : values) value += parameter.initial_value;
      set_values(part, values);
    });
  }
  // Adds the gradients of loss_scale * sum(losses); returns the losses. Where hooks say where
  // weights and gradients are, the model does not get to see the flat buffers.
  Values accumulate(ConstTensorView tokens, ConstTensorView targets, double loss_scale,
                    const Hooks& hooks = {}) {
    const Model model = hooks.weights ? Model(layout, {}, {}) : gpt2;
    model.forward(stream(), activations, workspace, tokens, hooks);
    model.classify(stream(), activations, workspace, targets, loss_scale, hooks);
    model.backward(stream(), activations, workspace, tokens, hooks);
    return values_of(workspace.losses(activations));
  }

  DType dtype;
  Layout layout;
  Tensor parameters, gradients, exp_avg, exp_avg_sq;
  Activations activations;
  ModelWorkspace workspace;
  Model gpt2;
};

}  // namespace ladder::testing
