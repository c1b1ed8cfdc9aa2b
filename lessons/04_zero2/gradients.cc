#include "lessons/04_zero2/gradients.h"

#include <algorithm>

#include "common/train/ranks.h"
#include "kernels/elementwise.h"
#include "lessons/03_zero1/shards.h"

namespace ladder {

GradientShards::GradientShards(const TrainerContext& context, ModelState& state,
                               Communicator& ranks, size_t num_slots)
    : state_(state),
      ranks_(ranks),
      plan_(plan_slots(state.layout(), num_slots)),
      slots_(plan_.elements.size()) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].memory =
        Tensor(context.device_memory, Category::communication, context.config.accumulation(),
               {plan_.elements[i]}, context.ranks->registered);
  }
}

GradientShards::SlotPlan GradientShards::plan_slots(const Layout& layout, size_t num_slots) {
  std::vector<size_t> order, num_writes(layout.units().size());  // units as they are first written
  for (const Use& use : training_walk(layout)) {
    if (use.writes_gradient && num_writes[use.unit]++ == 0) order.push_back(use.unit);
  }
  SlotPlan plan = {.slot_of_unit = std::vector<size_t>(layout.units().size()),
                   .elements = std::vector<size_t>(num_slots)};
  size_t turn = 0, largest = 0;
  for (size_t unit : order) {
    const size_t elements = layout.unit(unit).padded_elements;
    if (num_writes[unit] == 1) {
      plan.slot_of_unit[unit] = turn++ % num_slots;
      largest = std::max(largest, elements);
    } else {
      plan.slot_of_unit[unit] = plan.elements.size();
      plan.elements.push_back(elements);
    }
  }
  std::fill_n(plan.elements.begin(), num_slots, largest);
  return plan;
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
  Slot& slot = slot_of(unit);
  const Unit& u = state_.layout().unit(unit);
  const TensorView whole = slot.memory.view().rows(0, u.padded_elements);
  if (!slot.open) {  // else an earlier operation has begun this gradient
    keep(slot);
    if (slot.kept) state_.stream().wait(*slot.kept);
    fill(state_.stream(), whole, 0);
    slot.open = true;
  }
  return {u, whole};
}

void GradientShards::close(size_t unit) {
  Slot& slot = slot_of(unit);
  const TensorView whole = slot.memory.view().rows(0, state_.layout().unit(unit).padded_elements);
  const size_t n = shard_elements(state_.layout(), unit);
  slot.sum = ranks_.reduce_scatter(state_.stream(), whole.rows(ranks_.rank() * n, n), whole,
                                   {.purpose = Purpose::gradient, .background = true});
  slot.summing = unit;
  slot.open = false;
  // The sum of the unit before had all of this unit's backward to be done.
  for (Slot& before : slots_) {
    if (&before != &slot) keep(before);
  }
}

void GradientShards::keep(Slot& slot) {
  if (!slot.summing) return;
  const size_t n = shard_elements(state_.layout(), *slot.summing);
  Stream& keeping = keep(*slot.summing, slot.sum, slot.memory.view().rows(ranks_.rank() * n, n));
  if (!slot.kept) slot.kept = std::make_unique<Event>();
  slot.kept->record(keeping);
  slot.summing.reset();
}

Stream& GradientShards::keep(size_t unit, Work& sum, ConstTensorView shard) {
  sum.wait(state_.stream());
  add(state_.stream(), summed(unit), summed(unit), shard);
  return state_.stream();
}

void GradientShards::wait() {
  for (Slot& slot : slots_) {
    keep(slot);
    if (slot.kept) state_.stream().wait(*slot.kept);
  }
}

void GradientShards::update(const AdamWStep& numbers) {
  update_and_gather(state_, ranks_, numbers);
}

}  // namespace ladder
