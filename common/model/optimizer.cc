#include "common/model/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "common/model/slices.h"
#include "kernels/norm.h"

namespace ladder {

double learning_rate_at(const OptimizerConfig& config, int64_t step) {
  const double highest = config.learning_rate, lowest = config.min_learning_rate;
  if (step <= config.warmup_steps) {
    return highest * static_cast<double>(step) / static_cast<double>(config.warmup_steps);
  }
  const int64_t decay_steps = config.num_steps - config.warmup_steps;
  const double done = std::min(
      1.0, static_cast<double>(step - config.warmup_steps) / static_cast<double>(decay_steps));
  return lowest + 0.5 * (highest - lowest) * (1 + std::cos(std::numbers::pi * done));
}

double clip_factor(const OptimizerConfig& config, double grad_norm) {
  return config.clip_norm > 0 && grad_norm > config.clip_norm ? config.clip_norm / grad_norm : 1;
}

namespace {

bool counts(const Parameter& parameter) { return parameter.counted && parameter.trainable; }

bool counts_all(const Unit& unit) { return std::ranges::all_of(unit.parameters, counts); }

// Returns how many sums a rank needs. A unit whose parameters all count needs one; any other unit
// needs one for each parameter.
size_t num_sums(const Unit& unit) { return counts_all(unit) ? 1 : unit.parameters.size(); }

size_t num_sums(const Layout& layout) {
  size_t count = 0;
  for (const Unit& unit : layout.units()) count += num_sums(unit);
  return count;
}

// Calls body(first, count) for the ranges of what a rank owns of a unit that it counts. What it
// owns begins at element `begin` of the flat buffer, and `first` is relative to it.
template <class Body>
void for_counted(const Layout& layout, size_t unit, size_t begin, size_t elements, Body body) {
  if (counts_all(layout.unit(unit))) return body(0, elements);
  for_parameters_in(layout, begin, begin + elements,
                    [&](const Parameter& parameter, size_t, size_t from, size_t to) {
                      if (counts(parameter)) body(from - begin, to - from);
                    });
}

// Returns the workspace for the sums of a rank: a range may begin in the middle of a tile.
size_t workspace_elements(const Layout& layout, DeviceType device) {
  size_t elements = 0;
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    const size_t whole = sum_workspace_elements(owned_range(layout, unit, 0).count);
    elements = add_workspace(elements, whole, device);
    for (size_t i = 1; i < num_sums(layout.unit(unit)); ++i) {
      elements = add_workspace(elements, 1, device);
    }
  }
  return elements;
}

}  // namespace

GradNorm::GradNorm(Memory& memory, const Layout& layout)
    : layout_(layout),
      workspace_(memory, Category::workspace, DType::fp64,
                 {workspace_elements(layout, memory.device())}),
      squares_(memory, Category::workspace, DType::fp64, {num_sums(layout)}) {}

double GradNorm::squared_norm(Stream& stream, size_t rank, ConstTensorView gradients) {
  std::vector<ConstTensorView> counted;
  for (size_t unit = 0; unit < layout_.units().size(); ++unit) {
    const FlatRange range = owned_range(layout_, unit, rank);
    const ConstTensorView owned =
        shard_of(layout_, unit, rank, gradients).rows(range.first, range.count);
    for_counted(
        layout_, unit, shard_begin(layout_, unit, rank) + range.first, range.count,
        [&](size_t first, size_t count) { counted.push_back(owned.elements(first, {count})); });
  }
  const size_t num = counted.size();
  if (num == 0) return 0;
  const TensorView squares = squares_.view().rows(0, num);
  squared_norms(stream, squares, workspace_, counted);
  std::vector<double> host(num);
  copy(stream, TensorView(host.data(), DType::fp64, DeviceType::cpu, {num}), squares);
  stream.synchronize();
  double total = 0;
  for (double square : host) total += square;
  return total;
}

}  // namespace ladder
