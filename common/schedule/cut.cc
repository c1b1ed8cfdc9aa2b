#include "common/schedule/cut.h"

#include <algorithm>
#include <numeric>

#include "common/schedule/balance.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/cost.h"

namespace ladder {
namespace {

std::string join(const std::vector<size_t>& numbers) {
  std::string text;
  for (size_t number : numbers) text += concat(text.empty() ? "" : ",", number);
  return text;
}

// Returns the parts that begin at these operations.
std::vector<ModelPartition> parts_from(const ModelDescription& model,
                                       const std::vector<size_t>& first) {
  std::vector<ModelPartition> parts;
  for (size_t stage = 0; stage < first.size(); ++stage) {
    const bool is_last = stage + 1 == first.size();
    parts.push_back(
        {.first = first[stage], .end = is_last ? model.operations.size() : first[stage + 1]});
  }
  return parts;
}

// Returns the indices of the operations that are transformer blocks.
std::vector<size_t> blocks_of(const ModelDescription& model) {
  std::vector<size_t> blocks;
  for (size_t i = 0; i < model.operations.size(); ++i) {
    if (model.operations[i].kind == OperationKind::block) blocks.push_back(i);
  }
  return blocks;
}

// Returns the FLOP of one operation's products in forward and backward. Backward ends with the
// operation `end`.
double operation_flops(const ModelDescription& model, size_t index, size_t end) {
  const Operation& operation = model.operations[index];
  if (model.config.frozen.empty()) return 3 * operation.forward_flops;
  double weights = 0, trained = 0;
  for (const ParameterSpec& parameter : model.units[operation.unit].parameters) {
    if (parameter.shape.num_dims() < 2) continue;
    weights += number_of(parameter.shape.num_elements());
    trained += parameter.trainable ? number_of(parameter.shape.num_elements()) : 0;
  }
  const bool classifies = operation.kind == OperationKind::classifier;
  const bool reaches = index > end || (index == end && !classifies);  // the input's gradient
  // A block has the products of attention, too, whose backward is twice as much.
  const bool is_block = operation.kind == OperationKind::block;
  const double linear = is_block ? 2 * weights : operation.forward_flops;
  const double core = operation.forward_flops - linear;
  const double of_weights = weights > 0 ? linear * trained / weights : 0;
  return (reaches ? 2 * linear + 3 * core : linear + core) + of_weights;
}

// Returns the number of transformer blocks on each stage of the best cut.
std::vector<size_t> best_layers(const ModelDescription& model, size_t num_stages) {
  std::vector<size_t> layers;
  const std::vector<size_t> blocks = blocks_of(model);
  for (const ModelPartition& part : cut_evenly(model, num_stages)) {
    const auto is_in_part = [&](size_t i) { return part.first <= i && i < part.end; };
    layers.push_back(static_cast<size_t>(std::ranges::count_if(blocks, is_in_part)));
  }
  return layers;
}

}  // namespace

double part_flops(const ModelDescription& model, const ModelPartition& part) {
  const size_t end = model.first_trained();
  double flops = 0;
  for (size_t i = 0; i < model.operations.size(); ++i) {
    if (part.has(i)) flops += operation_flops(model, i, end);
  }
  return flops;
}

double forward_flops(const ModelDescription& model, const ModelPartition& part) {
  double flops = 0;
  for (size_t i = 0; i < model.operations.size(); ++i) {
    if (part.has(i)) flops += model.operations[i].forward_flops;
  }
  return flops;
}

size_t most_stages(const ModelDescription& model) {
  return static_cast<size_t>(
      std::ranges::count_if(model.operations, [](const auto& o) { return o.starts_stage; }));
}

std::vector<ModelPartition> cut_evenly(const ModelDescription& model, size_t num_stages) {
  std::vector<size_t> starts;  // the operations at which a stage may begin
  for (size_t i = 0; i < model.operations.size(); ++i) {
    if (model.operations[i].starts_stage) starts.push_back(i);
  }
  std::vector<double> flops;
  for (const ModelPartition& part : parts_from(model, starts)) {
    flops.push_back(part_flops(model, part));
  }
  std::vector<size_t> first;
  for (size_t part : cut_line(flops, num_stages)) first.push_back(starts[part]);
  return parts_from(model, first);
}

std::vector<ModelPartition> cut_at_layers(const ModelDescription& model,
                                          const std::vector<size_t>& layers, size_t num_stages) {
  // After the next statements, ends[n] is the operation that follows the first n blocks.
  std::vector<size_t> ends = blocks_of(model);
  const size_t available = ends.size(), most = available + 2;
  if (num_stages > most) {
    throw UserError(concat("--stage-layers: at most ", most, " stages for ",
                           counted(available, "layer"), ", not ", num_stages));
  }
  // The sum is a double, so that absurd numbers do not wrap around.
  const double sum = std::accumulate(layers.begin(), layers.end(), 0.0);
  const bool middle_is_empty =
      layers.size() > 2 && std::count(layers.begin() + 1, layers.end() - 1, size_t{0}) > 0;
  if (layers.size() != num_stages || sum != static_cast<double>(available) || middle_is_empty) {
    throw UserError(concat("--stage-layers ", join(layers), ": ", counted(sum, "layer"), " on ",
                           counted(layers.size(), "stage"), "; the model has ",
                           counted(available, "layer"), ", the pipeline ",
                           counted(num_stages, "stage"),
                           ", and only the first and the last may have none; for example ",
                           "--stage-layers ", join(best_layers(model, num_stages))));
  }
  ends.push_back(ends.back() + 1);
  std::vector<size_t> first = {0};
  for (size_t stage = 1, before = 0; stage < num_stages; ++stage) {
    before += layers[stage - 1];
    first.push_back(ends[before]);
  }
  return parts_from(model, first);
}

}  // namespace ladder
