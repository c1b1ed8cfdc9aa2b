#include "lessons/04_zero2/gradients.h"

#include "common/train/trainer/ranks.h"
#include "kernels/elementwise.h"
#include "lessons/03_zero1/shards.h"

namespace ladder {

namespace {

// Returns for each unit whether several operations add to its gradient.
std::vector<bool> written_often(const Layout& layout) {
  std::vector<bool> once(layout.units().size()), often(layout.units().size());
  for (const Use& use : training_walk(layout)) {
    if (!use.writes_gradient) continue;
    if (once[use.unit]) often[use.unit] = true;
    once[use.unit] = true;
  }
  return often;
}

}  // namespace

GradientShards::GradientShards(const TrainerContext& context, ModelState& state,
                               Communicator& ranks, size_t num_buffers)
    : state_(state), layout_(state.layout().trained()), ranks_(ranks) {
  const BufferPlan plan = plan_buffers(layout_, written_often(layout_), num_buffers);
  buffer_of_unit_ = plan.buffer_of_unit;
  for (size_t elements : plan.elements) {
    buffers_.emplace_back().memory =
        Tensor(context.device_memory, Category::communication, context.config.accumulation(),
               {elements}, context.ranks->registered);
  }
}

Hooks GradientShards::hooks() {
  Hooks hooks;
  hooks.gradient = [this](const Use& use) { return open(use.unit); };
  hooks.done = [this](const Use& use) {
    if (use.gradient_is_final) close(use.unit);
  };
  return hooks;
}

UnitView GradientShards::open(size_t unit) {
  Buffer& buffer = buffer_of(unit);
  const Unit& u = layout_.unit(unit);
  const TensorView whole = buffer.memory.view().rows(0, u.padded_elements);
  if (!buffer.open) {  // otherwise an earlier operation of this micro-batch has begun the gradient
    keep(buffer);
    if (buffer.kept) state_.stream().wait(*buffer.kept);
    fill(state_.stream(), whole, 0);
    buffer.open = true;
  }
  return {u, whole};
}

void GradientShards::close(size_t unit) {
  Buffer& buffer = buffer_of(unit);
  const TensorView whole = buffer.memory.view().rows(0, layout_.unit(unit).padded_elements);
  const size_t n = shard_elements(layout_, unit);
  buffer.sum = ranks_.reduce_scatter(state_.stream(), whole.rows(ranks_.rank() * n, n), whole,
                                     {.purpose = Purpose::gradient, .background = true});
  buffer.summing = unit;
  buffer.open = false;
  // The sum of the last unit has had all of this unit's backward to finish.
  for (Buffer& before : buffers_) {
    if (&before != &buffer) keep(before);
  }
}

void GradientShards::keep(Buffer& buffer) {
  if (!buffer.summing) return;
  const size_t n = shard_elements(layout_, *buffer.summing);
  Stream& keeping =
      keep(*buffer.summing, buffer.sum, buffer.memory.view().rows(ranks_.rank() * n, n));
  if (!buffer.kept) buffer.kept = std::make_unique<Event>();
  buffer.kept->record(keeping);
  buffer.summing.reset();
}

Stream& GradientShards::keep(size_t unit, Work& sum, ConstTensorView shard) {
  sum.wait(state_.stream());
  add(state_.stream(), summed(unit), summed(unit), shard);
  return state_.stream();
}

void GradientShards::wait() {
  for (Buffer& buffer : buffers_) {
    keep(buffer);
    if (buffer.kept) state_.stream().wait(*buffer.kept);
  }
}

double GradientShards::update(double norm) { return update_and_gather(state_, ranks_, norm); }

}  // namespace ladder
