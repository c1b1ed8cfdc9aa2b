// The gradients of a small model with experts, by finite differences: of the losses of the tokens,
// of the balance loss and of the z-loss, with tokens dropped and without.
#include <catch2/catch.hpp>
#include <cmath>

#include "common/model/gpt2.h"
#include "common/model/weights.h"
#include "kernels/elementwise.h"
#include "lessons/15_expert_parallel/expert_layer.h"

namespace ladder {
namespace {

constexpr size_t kBatch = 2, kTokens = 5;
constexpr double kTokenWeight = 0.1;

// A model of two blocks, the second with experts, and everything to run it.
struct SmallModel {
  SmallModel(size_t chosen, double capacity_factor, RouterFactors router_factors)
      : factors(router_factors), config(config_with(chosen)) {
    experts.emplace(memory, memory, layout, DType::fp64, kBatch, kTokens,
                    ExpertLayer::Options{.capacity_factor = capacity_factor, .factors = factors});
    model.emplace(layout, parameters, gradients, TensorParallel{}, RecomputePlan{},
                  ContextParallel{}, &*experts);
    // Larger than a model begins with, so that no choice is near another and every part of the
    // gradient counts.
    fill_normal(stream, parameters, 1, 0, 0.3);
    for (size_t i = 0; i < kBatch * kTokens; ++i) {
      tokens.view().as<int32_t>()[i] = static_cast<int32_t>(i * 5 % 7);
      targets.view().as<int32_t>()[i] = static_cast<int32_t>(i * 3 % 7);
    }
  }
  static Gpt2Config config_with(size_t chosen) {
    Gpt2Config config = {2, 2, 6, 7, kTokens};
    config.experts = {.num_experts = 4, .per_token = chosen, .every = 2};
    return config;
  }

  // Computes the gradients, and returns the sum whose gradients they are.
  double run() {
    fill(stream, gradients, 0);
    experts->clear(stream);
    model->forward(stream, activations, workspace, {tokens});
    model->classify(stream, activations, workspace, targets, kTokenWeight);
    model->backward(stream, activations, workspace, {tokens});
    double sum = 0;
    for (size_t i = 0; i < kBatch * kTokens; ++i) {
      sum += kTokenWeight * workspace.losses(activations).as<double>()[i];
    }
    load = experts->loads(stream).at(1);
    return sum + factors.balance * load.balance + factors.z * load.z;
  }

  RouterFactors factors;
  Gpt2Config config;
  Memory memory{DeviceType::cpu, "device", 0};
  Stream stream{DeviceType::cpu};
  Layout layout{config, 1};
  Tensor parameters{memory, Category::parameters, DType::fp64, {layout.num_elements()}};
  Tensor gradients{memory, Category::gradients, DType::fp64, {layout.num_elements()}};
  Tensor tokens{memory, Category::workspace, DType::int32, {kBatch, kTokens}};
  Tensor targets{memory, Category::workspace, DType::int32, {kBatch, kTokens}};
  Activations activations{memory, layout, DType::fp64, kBatch, kTokens};
  ModelWorkspace workspace{memory, layout, DType::fp64, kBatch, kTokens};
  std::optional<ExpertLayer> experts;
  std::optional<Gpt2> model;
  ExpertLayer::Load load;
};

TEST_CASE("gradients of every unit by finite differences") {
  const size_t chosen = GENERATE(1, 2, 4);
  const double capacity_factor = GENERATE(0.0, 0.7);
  CAPTURE(chosen, capacity_factor);
  SmallModel small(chosen, capacity_factor, {.balance = 0.05, .z = 0.02});
  small.run();
  double num_dropped = 0;
  for (double n : small.load.dropped) num_dropped += n;
  CHECK((num_dropped > 0) == (capacity_factor > 0));

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

}  // namespace
}  // namespace ladder
