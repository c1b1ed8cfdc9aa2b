// SGD against the loop that torch.optim.SGD documents, and what it keeps.
#include "common/optimizer/sgd.h"

#include "common/optimizer/state.h"
#include "tests/common/model/support.h"

namespace ladder::testing {
namespace {

constexpr size_t kElements = 257;
constexpr double kGradScale = 0.5;

// The algorithm of https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html, with
// dampening 0, in its order: decay, momentum (whose first value is the gradient), look ahead.
struct TorchSgd {
  OptimizerConfig config;
  double decay;
  Values param, buffer = {};

  void step(const Values& grad, double rate) {
    const bool is_first = buffer.empty();
    if (is_first) buffer.resize(param.size());
    for (size_t i = 0; i < param.size(); ++i) {
      double g = kGradScale * grad[i] + decay * param[i];
      if (config.momentum != 0) {
        buffer[i] = is_first ? g : config.momentum * buffer[i] + g;
        g = config.nesterov ? g + config.momentum * buffer[i] : buffer[i];
      }
      param[i] -= rate * g;
    }
  }
};

double difference(const Values& a, const Values& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

Parameter parameter_of(bool is_matrix) {
  Parameter parameter;
  parameter.shape = parameter.full_shape = is_matrix ? Shape{1, kElements} : Shape{kElements};
  return parameter;
}

void check_updates(const OptimizerConfig& config, bool is_matrix) {
  CAPTURE(config.momentum, config.nesterov, config.weight_decay, is_matrix);
  const Parameter parameter = parameter_of(is_matrix);
  Sgd sgd(config);
  const auto make = [](const Values& values) {
    Tensor tensor(memory(), Category::workspace, DType::fp64, {kElements});
    set_values(tensor, values);
    return tensor;
  };
  TorchSgd torch = {config, is_matrix ? config.weight_decay : 0,
                    normal_values(kElements, "param", 1)};
  const Tensor param = make(torch.param), momentum = make(Values(kElements));
  for (int64_t number = 1; number <= 4; ++number) {
    const Values g = normal_values(kElements, concat("grad", number), 1);
    const Tensor grad = make(g);
    const double rate = 0.1 / static_cast<double>(number);
    UpdateTensors tensors = {&parameter, param, grad, {}};
    if (config.momentum != 0) tensors.state.push_back(momentum);
    sgd.update(stream(), {tensors},
               {.number = number, .learning_rate = rate, .grad_scale = kGradScale});
    torch.step(g, rate);
    CHECK(values_of(grad) == g);
  }
  // Some twenty roundings of 2^-53 of terms of at most 10, four times: below 1e-14 on either side.
  CHECK(difference(values_of(param), torch.param) <= 1e-12);
  if (config.momentum != 0) CHECK(difference(values_of(momentum), torch.buffer) <= 1e-12);
}

TEST_CASE("SGD is torch.optim.SGD: with momentum, Nesterov's, weight decay, and without") {
  for (const double momentum : {0.0, 0.9}) {
    for (const bool nesterov : {false, true}) {
      if (nesterov && momentum == 0) continue;
      for (const double decay : {0.0, 0.1}) {
        for (const bool is_matrix : {true, false}) {
          check_updates(
              {.name = "sgd", .weight_decay = decay, .momentum = momentum, .nesterov = nesterov},
              is_matrix);
        }
      }
    }
  }
}

TEST_CASE("masters are updated, and the model's copy is rounded from them") {
  const Parameter parameter = parameter_of(true);
  const Tensor param(memory(), Category::workspace, DType::fp32, {kElements});
  const Tensor grad(memory(), Category::workspace, DType::fp32, {kElements});
  const Tensor copy(memory(), Category::workspace, DType::bf16, {kElements});
  set_values(param, normal_values(kElements, "param", 1));
  set_values(grad, normal_values(kElements, "grad", 1));
  Sgd({.name = "sgd"}).update(stream(), {{&parameter, param, grad, copy}}, {.learning_rate = 0.1});
  const Tensor rounded(memory(), Category::workspace, DType::bf16, {kElements});
  cast(stream(), rounded, param);
  CHECK(values_of(copy) == values_of(rounded));
  CHECK(difference(values_of(param), normal_values(kElements, "param", 1)) > 0.01);
}

TEST_CASE("SGD keeps one tensor of each parameter, and without momentum none") {
  const Layout layout({.num_layers = 2, .num_heads = 3, .hidden = 15, .vocab_size = 370}, 3);
  for (const double momentum : {0.0, 0.9}) {
    CAPTURE(momentum);
    const OptimizerConfig config = {.name = "sgd", .momentum = momentum};
    const Rules rules = make_rules(config);
    CHECK(rules.size() == 1);
    Memory arena(DeviceType::cpu, "device", 0);
    const OptimizerState state(arena, rules, DType::fp32, layout, 1, true, false);
    CHECK(arena.peak()[Category::optimizer] ==
          (momentum == 0 ? 0 : sizeof(float) * layout.num_shard_elements()));
    ParameterSpec parameter;
    CHECK(keeps(config, kMomentum, parameter) == (momentum != 0));
    CHECK_FALSE(keeps(config, kExpAvg, parameter));
    CHECK(optimizer_of(optimizer_settings(config)).momentum == momentum);
  }
  CHECK(other_state({}, {.name = "sgd"}) == "--optimizer was adamw");
  CHECK(other_state({.name = "sgd", .momentum = 0.9}, {.name = "sgd"}) == "--momentum was 0.9");
  CHECK(other_state({.name = "sgd", .momentum = 0.9}, {.name = "sgd", .momentum = 0.8}) == "");
}

}  // namespace
}  // namespace ladder::testing
