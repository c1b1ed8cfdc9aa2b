#include "lessons/04_zero2/gradients.h"

#include <algorithm>

#include "kernels/elementwise.h"

namespace ladder {
namespace {

// Elements of the scratch of slot 0, the token embedding's, and of slots 1 and 2.
std::array<size_t, 3> slot_elements(const Layout& layout) {
  size_t largest = 0;
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    if (unit == layout.token_embedding()) continue;
    largest = std::max(largest, layout.unit(unit).padded_elements);
  }
  return {layout.unit(layout.token_embedding()).padded_elements, largest, largest};
}

}  // namespace

GradientShards::GradientShards(const TrainerContext& context, const Layout& layout,
                               TensorView shards)
    : layout_(layout), shards_(shards), world_(*context.world) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].memory = Tensor(context.device_memory, Category::communication, shards.dtype(),
                              {slot_elements(layout)[i]}, context.registered);
  }
}

size_t GradientShards::num_elements(const Layout& layout) {
  size_t total = 0;
  for (size_t elements : slot_elements(layout)) total += elements;
  return total;
}

GradientShards::Slot& GradientShards::slot_of(size_t unit) {
  // Backward goes from unit to unit, one down each time: neighbours have different slots.
  return slots_[unit == layout_.token_embedding() ? 0 : 1 + unit % 2];
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
    retire(stream, slot);
    fill(stream, whole, 0);
    slot.open = true;
  }
  return {u, whole};
}

void GradientShards::close(Stream& stream, size_t unit) {
  Slot& slot = slot_of(unit);
  const TensorView whole = slot.memory.view().rows(0, layout_.unit(unit).padded_elements);
  const size_t n = shard_elements(layout_, unit);
  slot.work = world_.reduce_scatter(stream, whole.rows(world_.rank() * n, n), whole,
                                    {.purpose = Purpose::gradient, .background = true});
  slot.summing = unit;
  slot.open = false;
}

void GradientShards::retire(Stream& stream, Slot& slot) {
  if (!slot.summing) return;
  slot.work.wait(stream);
  const size_t n = shard_elements(layout_, *slot.summing);
  const TensorView shard = shard_in_shards(layout_, *slot.summing, shards_);
  add(stream, shard, shard, slot.memory.view().rows(world_.rank() * n, n));
  slot.summing.reset();
}

void GradientShards::wait(Stream& stream) {
  for (Slot& slot : slots_) retire(stream, slot);
}

}  // namespace ladder
