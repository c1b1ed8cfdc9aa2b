#include "lessons/04_zero2/gradients.h"

#include <utility>

#include "kernels/elementwise.h"

namespace ladder {

GradientShards::GradientShards(const TrainerContext& context, const Layout& layout,
                               size_t num_slots, Take take)
    : layout_(layout), world_(*context.world), take_(std::move(take)), slots_(1 + num_slots) {
  for (Slot& slot : slots_) {
    const size_t elements = &slot == &slots_.front()
                                ? layout.unit(layout.token_embedding()).padded_elements
                                : layout.largest_unit_but_token_embedding();
    slot.memory = Tensor(context.device_memory, Category::communication,
                         context.config.accumulation(), {elements}, context.registered);
  }
}

GradientShards::GradientShards(const TrainerContext& context, const Layout& layout,
                               TensorView shards)
    : GradientShards(context, layout, 2,
                     [&layout, shards](Stream& stream, size_t unit, Work& summed,
                                       ConstTensorView sum) -> Stream& {
                       summed.wait(stream);
                       const TensorView shard = shard_in_shards(layout, unit, shards);
                       add(stream, shard, shard, sum);
                       return stream;
                     }) {}

size_t GradientShards::num_elements(const Layout& layout, size_t num_slots) {
  return layout.unit(layout.token_embedding()).padded_elements +
         num_slots * layout.largest_unit_but_token_embedding();
}

GradientShards::Slot& GradientShards::slot_of(size_t unit) {
  if (unit == layout_.token_embedding()) return slots_.front();
  return slots_[1 + unit % (slots_.size() - 1)];  // backward goes down by one each time
}

Hooks GradientShards::hooks(Stream& stream) {
  Hooks hooks;
  hooks.gradient = [this, &stream](size_t unit) { return open(stream, unit); };
  hooks.done = [this, &stream](size_t unit, Pass pass) {
    if (pass == Pass::backward) close(stream, unit);
  };
  return hooks;
}

UnitView GradientShards::open(Stream& stream, size_t unit) {
  Slot& slot = slot_of(unit);
  const Unit& u = layout_.unit(unit);
  const TensorView whole = slot.memory.view().rows(0, u.padded_elements);
  if (!slot.open) {  // the token embedding's is still open when backward comes to it again
    take(stream, slot);
    if (slot.taken) stream.wait(*slot.taken);
    fill(stream, whole, 0);
    slot.open = true;
  }
  return {u, whole};
}

void GradientShards::close(Stream& stream, size_t unit) {
  Slot& slot = slot_of(unit);
  const TensorView whole = slot.memory.view().rows(0, layout_.unit(unit).padded_elements);
  const size_t n = shard_elements(layout_, unit);
  slot.summed = world_.reduce_scatter(stream, whole.rows(world_.rank() * n, n), whole,
                                      {.purpose = Purpose::gradient, .background = true});
  slot.summing = unit;
  slot.open = false;
  // The sum of the unit before had all of this unit's backward to be done.
  for (Slot& before : slots_) {
    if (&before != &slot) take(stream, before);
  }
}

void GradientShards::take(Stream& stream, Slot& slot) {
  if (!slot.summing) return;
  const size_t n = shard_elements(layout_, *slot.summing);
  Stream& taking =
      take_(stream, *slot.summing, slot.summed, slot.memory.view().rows(world_.rank() * n, n));
  if (!slot.taken) slot.taken = std::make_unique<Event>();
  slot.taken->record(taking);
  slot.summing.reset();
}

void GradientShards::wait(Stream& stream) {
  for (Slot& slot : slots_) {
    take(stream, slot);
    if (slot.taken) stream.wait(*slot.taken);
  }
}

}  // namespace ladder
