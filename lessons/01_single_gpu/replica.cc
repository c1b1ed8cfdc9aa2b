#include "lessons/01_single_gpu/replica.h"

#include <optional>

#include "kernels/elementwise.h"

namespace ladder {
namespace {

Tensor state_tensor(const TrainerContext& context, Category category, DType dtype,
                    const StateShare::Part& part) {
  Memory& memory = part.on_host ? context.host_memory : context.device_memory;
  return Tensor(memory, category, dtype, {part.elements}, part.source);
}

// Of gradients, moments and masters.
Tensor state_tensor(const TrainerContext& context, Category category,
                    const StateShare::Part& part) {
  return state_tensor(context, category, context.config.accumulation(), part);
}

TensorParallel tensor_parallel(const TrainerContext& context) {
  return context.groups == nullptr ? TensorParallel() : TensorParallel(context.groups->tensor());
}

}  // namespace

Prediction Replica::predict(const RunConfig& config, const Layout& layout, const StateShare& share,
                            size_t num_slots) {
  const size_t size = size_of(config.dtype), full_size = size_of(config.accumulation());
  const size_t sequences = config.micro_batch_size, tokens = config.model.sequence_length;
  Prediction prediction;
  const auto add = [&](Category category, const StateShare::Part& part, size_t bytes) {
    MemoryUse& arena = part.on_host ? prediction.host : prediction.device;
    arena[category] += bytes * part.elements;
  };
  add(Category::parameters, share.parameters, size);
  add(Category::gradients, share.gradients, full_size);
  add(Category::optimizer, share.moment, 2 * full_size);
  if (config.dtype != config.accumulation()) add(Category::optimizer, share.moment, full_size);
  MemoryUse& device = prediction.device;
  device[Category::activations] =
      num_slots * Activations::num_bytes(layout, config.dtype, sequences, tokens);
  device[Category::workspace] =
      ModelWorkspace::num_bytes(layout, config.dtype, sequences, tokens) +
      num_slots * BatchLoader::num_bytes(config) +
      LossSum::num_bytes(config, config.num_micro_batches(layout.world_size()));
  (share.gradients.on_host ? prediction.host : device)[Category::workspace] +=
      GradNorm::num_bytes(layout);
  prediction.host[Category::workspace] += num_slots * BatchLoader::num_bytes(config) +
                                          ParameterStaging::num_bytes(layout, config.dtype);
  return prediction;
}

Replica::Replica(const TrainerContext& c, const Layout& l, const StateShare& share,
                 size_t num_slots)
    : context(c),
      layout(l),
      rank(c.grid.data_rank()),
      parameters(state_tensor(c, Category::parameters, c.config.dtype, share.parameters)),
      gradients(state_tensor(c, Category::gradients, share.gradients)),
      exp_avg(state_tensor(c, Category::optimizer, share.moment)),
      exp_avg_sq(state_tensor(c, Category::optimizer, share.moment)),
      workspace(c.device_memory, layout, c.config.dtype, c.config.micro_batch_size,
                c.config.model.sequence_length, c.grid.tensor_size > 1 ? c.registered : nullptr),
      model(layout, parameters, gradients, tensor_parallel(c)),
      losses(c, c.config.num_micro_batches(layout.world_size())),
      grad_norm(share.gradients.on_host ? c.host_memory : c.device_memory, layout),
      staging(c, layout) {
  for (size_t slot = 0; slot < num_slots; ++slot) {
    slots.push_back(
        {BatchLoader(c), Activations(c.device_memory, layout, c.config.dtype,
                                     c.config.micro_batch_size, c.config.model.sequence_length)});
  }
  if (c.config.dtype != c.config.accumulation()) {
    master = state_tensor(c, Category::optimizer, share.moment);
  }
  initialize();
}

void Replica::initialize() {
  std::optional<WeightsFile> file;
  if (!context.config.init.empty()) {
    file.emplace(context.config.init, Layout(context.config.model, 1));
  }
  const auto load = [&](size_t first, TensorView span) {
    if (file) return staging.load(*file, first, span);
    initialize_parameters(stream_of(span), layout, context.config.seed, first, span);
  };
  const auto load_all = [&](const Tensor& buffer) {
    if (buffer.shape()[0] == layout.num_elements()) return load(0, buffer);
    for (size_t unit = 0; unit < layout.units().size(); ++unit) {
      load(shard_begin(layout, unit, rank), shard_of(buffer, unit));
    }
  };
  load_all(parameters);
  if (master.view().empty()) return;
  if (file) return load_all(master);
  masters_from_parameters();
}

void Replica::masters_from_parameters() {
  if (master.shape() == parameters.shape()) return cast(context.stream, master, parameters);
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    cast(context.stream, shard_of(master, unit), shard_of(parameters, unit));
  }
}

Stream& Replica::stream_of(const TensorView& view) {
  return view.device() == DeviceType::cpu ? host_stream : context.stream;
}

void Replica::forward(Split split, int64_t step, size_t first_row, const Hooks& hooks) {
  slots[0].batch.load(split, step, first_row);
  model.forward(context.stream, slots[0].activations, workspace, slots[0].batch.tokens(),
                traced(hooks));
}

void Replica::backward(double loss_scale, const Hooks& hooks) {
  const auto& [batch, activations] = slots[0];
  const Hooks all = traced(hooks);
  model.classify(context.stream, activations, workspace, batch.targets(), loss_scale, all);
  model.backward(context.stream, activations, workspace, batch.tokens(), all);
  losses.add(workspace.losses(activations));
}

void Replica::evaluate(const Hooks& hooks) {
  const auto& [batch, activations] = slots[0];
  model.evaluate(context.stream, activations, workspace, batch.targets(), hooks);
  losses.add(workspace.losses(activations));
}

void Replica::update(const AdamWStep& step) {
  if (context.trace != nullptr) context.trace->mark();
  const TensorView target = buffer(TensorKind::param);
  adamw_update(context.stream, layout, 0, target, exp_avg, exp_avg_sq, gradients, step);
  if (!master.view().empty()) cast(context.stream, parameters, master);
  if (context.trace != nullptr) context.trace->add_since_mark("AdamW");
}

Hooks Replica::traced(const Hooks& hooks) {
  if (context.trace == nullptr) return hooks;
  context.trace->mark();
  return context.trace->hooks(layout, hooks);
}

TensorView Replica::buffer(TensorKind kind) const {
  switch (kind) {
    case TensorKind::param:
      return master.view().empty() ? parameters : master;
    case TensorKind::grad:
      return gradients;
    case TensorKind::exp_avg:
      return exp_avg;
    case TensorKind::exp_avg_sq:
      return exp_avg_sq;
  }
  return {};
}

TensorView Replica::shard_of(TensorView buffer, size_t unit) const {
  return buffer.num_elements() == layout.num_elements() ? shard_in_flat(layout, unit, rank, buffer)
                                                        : shard_in_shards(layout, unit, buffer);
}

double Replica::squared_norm() {
  return grad_norm.squared_norm(stream_of(gradients), rank,
                                [&](size_t unit) { return shard(TensorKind::grad, unit); });
}

void Replica::visit(TensorKind kind, const TensorSink& sink) { staging.visit(buffer(kind), sink); }

}  // namespace ladder
