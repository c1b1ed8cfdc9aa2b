// The gradients of a small model with experts, by finite differences and as PyTorch computes them
// (tests/golden/make_expert_golden.py): of the losses of the tokens, of the balance loss and of the
// z-loss, with tokens dropped and without. A Mixtral's, as transformers computes them
// (make_llama_golden.py).
#include <cmath>
#include <numeric>

#include "common/model/model.h"
#include "common/model/published_config.h"
#include "common/model/weights.h"
#include "kernels/elementwise.h"
#include "lessons/15_expert_parallel/expert_layer.h"
#include "tests/catch.h"
#include "tests/golden/golden_file.h"

namespace ladder {
namespace {

// A model of two blocks, the second with experts, and everything to run it on one micro-batch.
// The router's factors multiply what a token adds to its losses.
struct SmallModel {
  SmallModel(const ModelConfig& sizes, size_t batch, size_t num_tokens, double capacity_factor,
             double weight, RouterFactors router_factors)
      : config(sizes), rows{batch, num_tokens}, token_weight(weight), factors(router_factors) {
    experts.emplace(memory, memory, layout, DType::fp64, batch, num_tokens,
                    ExpertLayer::Options{.capacity_factor = capacity_factor, .factors = factors});
    model.emplace(layout, parameters, gradients, TensorParallel{}, RecomputePlan{},
                  ContextParallel{}, &*experts);
  }

  // Computes the gradients, and returns the sum whose gradients they are.
  double run() {
    fill(stream, gradients, 0);
    experts->clear(stream, 1);
    model->forward(stream, activations, workspace, {tokens});
    model->classify(stream, activations, workspace, targets, token_weight);
    model->backward(stream, activations, workspace, {tokens});
    loss = 0;
    for (size_t i = 0; i < rows.num_elements(); ++i) {
      loss += token_weight * workspace.losses(activations).as<double>()[i];
    }
    load = experts->loads(stream).at(1);
    return loss + factors.balance * load.balance + factors.z * load.z;
  }
  double num_dropped() const {
    return std::accumulate(load.dropped.begin(), load.dropped.end(), 0.0);
  }

  ModelConfig config;
  Shape rows;
  double token_weight;
  RouterFactors factors;
  Memory memory{DeviceType::cpu, "device", 0};
  Stream stream{DeviceType::cpu};
  Layout layout{config, 1};
  Tensor parameters{memory, Category::parameters, DType::fp64, {layout.num_elements()}};
  Tensor gradients{memory, Category::gradients, DType::fp64, {layout.num_elements()}};
  Tensor tokens{memory, Category::workspace, DType::int32, rows};
  Tensor targets{memory, Category::workspace, DType::int32, rows};
  Activations activations{memory, layout, DType::fp64, rows[0], rows[1]};
  ModelWorkspace workspace{memory, layout, DType::fp64, rows[0], rows[1]};
  std::optional<ExpertLayer> experts;
  std::optional<Model> model;
  double loss = 0;  // of the tokens
  ExpertLayer::Load load;
};

TEST_CASE("gradients of every unit by finite differences") {
  const size_t chosen = GENERATE(1, 2, 4);
  const double capacity_factor = GENERATE(0.0, 0.7);
  CAPTURE(chosen, capacity_factor);
  constexpr size_t kBatch = 2, kTokens = 5;
  ModelConfig config = {2, 2, 6, 7, kTokens};
  config.experts = {.num_experts = 4, .per_token = chosen, .every = 2};
  SmallModel small(config, kBatch, kTokens, capacity_factor, 0.1, {.balance = 0.05, .z = 0.02});
  // Larger than a model begins with, so that no choice is near another and every part of the
  // gradient counts.
  fill_normal(small.stream, small.parameters, 1, 0, 0.3);
  for (size_t i = 0; i < kBatch * kTokens; ++i) {
    small.tokens.view().as<int32_t>()[i] = static_cast<int32_t>(i * 5 % 7);
    small.targets.view().as<int32_t>()[i] = static_cast<int32_t>(i * 3 % 7);
  }
  small.run();
  CHECK((small.num_dropped() > 0) == (capacity_factor > 0));

  double* const parameters = small.parameters.view().as<double>();
  const double* const computed = small.gradients.view().as<double>();
  const std::vector<double> gradients(computed, computed + small.layout.num_elements());
  for (const Unit& unit : small.layout.units()) {
    double largest = 0;
    for (const Parameter& p : unit.parameters) {
      for (size_t i = 0; i < p.shape.num_elements(); ++i) {
        largest = std::max(largest, std::abs(gradients[unit.offset + p.offset + i]));
      }
    }
    INFO(unit.name);
    CHECK(largest > 1e-3);
    // A prime stride meets every parameter of the unit, and every column of the larger ones.
    for (size_t i = 0; i<unit.num_elements; i += unit.num_elements> 100 ? 7 : 1) {
      double& x = parameters[unit.offset + i];
      const double before = x;
      constexpr double kStep = 1e-5;  // tests/kernels/support.h says why
      x = before + kStep;
      const double above = small.run();
      x = before - kStep;
      const double numeric = (above - small.run()) / (2 * kStep);
      x = before;
      REQUIRE(std::abs(gradients[unit.offset + i] - numeric) <= 1e-7 * std::max(1.0, largest));
    }
  }
}

void load_parameters(const SmallModel& small, const testing::GoldenFile& golden) {
  for_parameters_in(small.layout, 0, small.layout.num_elements(),
                    [&](const Parameter& p, size_t begin, size_t, size_t) {
                      const std::vector<double> values = golden.values("param." + p.name);
                      std::ranges::copy(values, small.parameters.view().as<double>() + begin);
                    });
}

// Compares every gradient with the file's. `bound` is relative to a tensor's largest element.
void check_gradients(const SmallModel& small, const testing::GoldenFile& golden,
                     const std::string& prefix, double bound) {
  for_parameters_in(small.layout, 0, small.layout.num_elements(),
                    [&](const Parameter& p, size_t begin, size_t, size_t) {
                      const std::vector<double> expected = golden.values(prefix + p.name);
                      double largest = 0, worst = 0;
                      for (size_t i = 0; i < expected.size(); ++i) {
                        const double computed = small.gradients.view().as<double>()[begin + i];
                        largest = std::max(largest, std::abs(expected[i]));
                        worst = std::max(worst, std::abs(computed - expected[i]));
                      }
                      INFO(p.name);
                      CHECK(worst <= bound * largest);
                    });
}

void load_tokens(const Tensor& tokens, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    tokens.view().as<int32_t>()[i] = static_cast<int32_t>(values[i]);
  }
}

// 1e-11 of the largest element: both sides round at 2^-53 in sums of at most a few hundred terms
// and some 60 operations in a row, which makes 1e-12.
TEST_CASE("losses and gradients as PyTorch computes them") {
  const testing::GoldenFile golden("tests/golden/gpt2_experts.safetensors");
  const auto [name, chosen, capacity_factor] = GENERATE(table<std::string, size_t, double>(
      {{"k1", 1, 0.0}, {"k1_capacity", 1, 1.0}, {"k2", 2, 0.0}, {"k2_capacity", 2, 1.0}}));
  CAPTURE(name);
  ModelConfig config = {golden.setting("layers"), golden.setting("heads"), golden.setting("hidden"),
                        golden.setting("vocab"), golden.setting("sequence_length")};
  config.experts = {
      .num_experts = golden.setting("experts"), .per_token = chosen, .every = config.num_layers};
  const std::vector<size_t>& sizes = golden.reader().find("tokens")->shape;
  const Shape rows = {sizes.at(0), sizes.at(1)};
  const double num_tokens = static_cast<double>(rows.num_elements());
  SmallModel small(config, rows[0], rows[1], capacity_factor, 1 / num_tokens,
                   {.balance = golden.number("settings.balance_coefficient") / num_tokens,
                    .z = golden.number("settings.z_coefficient") / num_tokens});
  load_tokens(small.tokens, golden.values("tokens"));
  load_tokens(small.targets, golden.values("targets"));
  load_parameters(small, golden);
  small.run();

  const auto near = [](double value) { return Approx(value).epsilon(0).margin(1e-11 * value); };
  CHECK(small.loss == near(golden.number(name + ".loss")));
  CHECK(small.load.balance / num_tokens == near(golden.number(name + ".balance")));
  CHECK(small.load.z / num_tokens == near(golden.number(name + ".z")));
  CHECK(small.num_dropped() == golden.number(name + ".dropped"));
  check_gradients(small, golden, name + ".grad.", 1e-11);
}

// transformers sums the experts' outputs in another order; otherwise as above, in fewer terms.
TEST_CASE("a Mixtral's loss and gradients as transformers computes them") {
  const testing::GoldenFile golden("tests/golden/llama_family/mixtral.safetensors");
  const ModelConfig config = read_published_config("tests/golden/llama_family/mixtral.json");
  CHECK(config.experts == ExpertsConfig{.num_experts = 3, .per_token = 2, .every = 1});
  const std::vector<size_t>& sizes = golden.reader().find("tokens")->shape;
  const double num_tokens = static_cast<double>(sizes.at(0) * sizes.at(1));
  SmallModel small(config, sizes.at(0), sizes.at(1), 0, 1 / num_tokens, {.balance = 0, .z = 0});
  load_tokens(small.tokens, golden.values("tokens"));
  load_tokens(small.targets, golden.values("targets"));
  load_parameters(small, golden);
  small.run();
  const double loss = golden.number("loss");
  CHECK(small.loss == Approx(loss).epsilon(0).margin(1e-12 * loss));
  check_gradients(small, golden, "grad.", 1e-12);
}

}  // namespace
}  // namespace ladder
