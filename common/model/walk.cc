#include "common/model/walk.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace ladder {

namespace {

// Appends the uses that recompute the group that ends with the block of operation `last`. The
// operations of a group follow each other.
void add_recomputation(std::vector<Use>& walk, const Layout& layout, const RecomputePlan& plan,
                       size_t last) {
  const size_t before = plan.set_of(layout.operations()[last].index);  // its blocks before the last
  for (size_t i = last - before; i <= last; ++i) {
    const Operation& operation = layout.operations()[i];
    const BlockOperations again = plan.recomputed(operation.index);
    if (again.none()) continue;
    walk.push_back({.pass = Pass::recompute,
                    .operation = i,
                    .unit = operation.unit,
                    .reads_weights = (again & ~in_all_sublayers(SublayerOperation::core)).any()});
  }
}

}  // namespace

std::string_view name_of(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return "forward";
    case Pass::classifier:
      return "classifier";
    case Pass::recompute:
      return "recompute";
    case Pass::backward:
      return "backward";
    case Pass::backward_input:
      return "backward_input";
    case Pass::backward_weight:
      return "backward_weight";
  }
  return "?";
}

std::vector<Use> evaluation_walk(const Layout& layout) {
  std::vector<Use> walk;
  for (size_t i = 0; i < layout.operations().size(); ++i) {
    const bool classifies = layout.operations()[i].kind == OperationKind::classifier;
    walk.push_back({.pass = classifies ? Pass::classifier : Pass::forward,
                    .operation = i,
                    .unit = layout.operations()[i].unit,
                    .reads_weights = true});
  }
  return walk;
}

std::vector<Use> training_walk(const Layout& layout, const RecomputePlan& plan) {
  std::vector<Use> walk = evaluation_walk(layout);
  for (size_t i = layout.operations().size(); i-- > layout.first_backward();) {
    const Operation& operation = layout.operations()[i];
    Use use = {.pass = Pass::backward, .operation = i, .unit = operation.unit};
    use.writes_gradient = layout.unit(use.unit).trained_elements > 0;
    if (operation.kind == OperationKind::classifier) {
      walk[i].writes_gradient = std::exchange(use.writes_gradient, false);
      if (!walk[i].writes_gradient) continue;
      const auto uses_unit = [&](const Operation& other) { return other.unit == operation.unit; };
      if (std::ranges::count_if(layout.operations(), uses_unit) > 1) continue;
    } else {
      use.reads_weights = operation.backward_reads_weights;
      if (!use.reads_weights && !use.writes_gradient) continue;
    }
    if (operation.kind == OperationKind::block && plan.ends_group(operation.index)) {
      add_recomputation(walk, layout, plan, i);
    }
    walk.push_back(use);
  }
  // The last use of a unit in backward makes its gradient final.
  std::vector<bool> is_final(layout.units().size(), false);
  for (Use& use : std::views::reverse(walk)) {
    const bool is_trained = layout.unit(use.unit).trained_elements > 0;
    if (use.pass != Pass::backward || !is_trained || is_final[use.unit]) continue;
    use.gradient_is_final = is_final[use.unit] = true;
  }
  return walk;
}

std::vector<Use> in_two_halves(const Layout& layout, const std::vector<Use>& walk) {
  std::vector<Use> first, second;
  for (Use use : walk) {
    check(use.pass != Pass::recompute, "in_two_halves: the walk recomputes");
    if (use.pass != Pass::backward) {
      first.push_back(use);
      continue;
    }
    const OperationKind kind = layout.operations()[use.operation].kind;
    const bool is_block = kind == OperationKind::block;
    const bool has_second = is_block || kind == OperationKind::token_embedding ||
                            kind == OperationKind::position_embedding;
    if (has_second && use.writes_gradient) {
      Use half = use;
      half.pass = Pass::backward_weight;
      half.reads_weights = false;
      second.push_back(half);
      use.gradient_is_final = false;
    }
    use.pass = Pass::backward_input;
    if (is_block || !has_second) first.push_back(use);
  }
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

BufferPlan plan_buffers(const Layout& layout, const std::vector<bool>& has_own_buffer,
                        size_t num_turns) {
  BufferPlan plan = {.buffer_of_unit = {}, .elements = std::vector<size_t>(num_turns)};
  size_t turn = 0, largest = 0;
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    const size_t elements = layout.unit(unit).padded_elements;
    if (has_own_buffer[unit]) {
      plan.buffer_of_unit.push_back(plan.elements.size());
      plan.elements.push_back(elements);
    } else {
      plan.buffer_of_unit.push_back(turn++ % num_turns);
      largest = std::max(largest, elements);
    }
  }
  std::fill_n(plan.elements.begin(), num_turns, largest);
  return plan;
}

}  // namespace ladder
