#include "lessons/05_zero3/gather.h"

#include <algorithm>

#include "common/train/validators.h"
#include "kernels/runtime/check.h"

namespace ladder {

void GatherOptions::add_to(CLI::App& app, const char* group) {
  app.add_option("--prefetch", prefetch,
                 "Units whose parameters are gathered ahead of the one in use [1]")
      ->check(whole(0, 1000))
      ->group(group);
  app.add_flag("--keep-embedding", keep_embedding,
               "Gather the token embedding once for embedding and classifier")
      ->group(group);
  app.add_flag("--no-reshard-after-forward{false}", reshard_after_forward,
               "Keep every unit's parameters from forward to backward")
      ->group(group);
}

std::vector<UnitGatherer::Use> UnitGatherer::plan(const Layout& layout,
                                                  const GatherOptions& options, Walk walk) {
  const size_t wte = layout.token_embedding(), norm = layout.final_norm();
  const bool keeps = walk == Walk::training && !options.reshard_after_forward;
  std::vector<Use> uses;
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    const bool used_in_backward = unit >= layout.block(0);
    uses.push_back({unit, Pass::forward, true, !(keeps && used_in_backward)});
  }
  const bool keeps_embedding = options.keep_embedding || !options.reshard_after_forward;
  uses.front().releases = !keeps_embedding;
  uses.push_back({wte, Pass::classifier, !keeps_embedding});
  if (walk == Walk::training) {
    for (size_t unit = norm; unit >= layout.block(0); --unit) {
      uses.push_back({unit, Pass::backward, !keeps});
    }
  }
  // Slot 0 is the token embedding's. The others are taken in turn: of prefetch + 1 neighbours no
  // two share one. Units that stay have one each.
  size_t turn = 0;
  for (Use& use : uses) {
    if (use.unit == wte) continue;
    use.slot = 1 + (options.reshard_after_forward ? turn++ % (options.prefetch + 1) : use.unit - 1);
  }
  return uses;
}

std::vector<size_t> UnitGatherer::slot_elements(const Layout& layout,
                                                const GatherOptions& options) {
  std::vector<size_t> elements;
  if (options.reshard_after_forward) {
    elements.resize(options.prefetch + 2, layout.largest_unit_but_token_embedding());
    elements[0] = layout.unit(layout.token_embedding()).padded_elements;
  } else {
    for (const Unit& unit : layout.units()) elements.push_back(unit.padded_elements);
  }
  return elements;
}

size_t UnitGatherer::num_elements(const Layout& layout, const GatherOptions& options) {
  size_t total = 0;
  for (size_t elements : slot_elements(layout, options)) total += elements;
  return total;
}

Traffic UnitGatherer::traffic(const Layout& layout, const GatherOptions& options, DType dtype) {
  Traffic traffic;
  for (const Use& use : plan(layout, options, Walk::training)) {
    if (!use.gathers) continue;
    ++traffic.calls;
    traffic.payload_bytes += layout.unit(use.unit).padded_elements * size_of(dtype);
  }
  return traffic;
}

UnitGatherer::UnitGatherer(const TrainerContext& context, const Layout& layout,
                           ConstTensorView shards, const GatherOptions& options, bool from_host)
    : layout_(layout),
      shards_(shards),
      options_(options),
      from_host_(from_host),
      world_(*context.world),
      copies_(context.stream.device()) {
  for (size_t elements : slot_elements(layout, options)) {
    slots_.emplace_back().memory =
        Tensor(context.device_memory, Category::communication, shards.dtype(), {elements},
               from_host ? context.registered : nullptr);
  }
}

Hooks UnitGatherer::hooks(Stream& stream, Walk walk) {
  check(num_taken() == 0, "the micro-batch before has not released its units");
  uses_ = plan(layout_, options_, walk);
  current_ = next_ = 0;
  Hooks hooks;
  hooks.weights = [this, &stream](size_t unit, Pass pass) { return weights(stream, unit, pass); };
  hooks.done = [this](size_t unit, Pass pass) { done(unit, pass); };
  return hooks;
}

size_t UnitGatherer::num_taken() const {
  return static_cast<size_t>(std::ranges::count(slots_, true, &Slot::taken));
}

TensorView UnitGatherer::memory_of(const Use& use) const {
  return slots_[use.slot].memory.view().rows(0, layout_.unit(use.unit).padded_elements);
}

void UnitGatherer::start(Stream& stream, const Use& use) {
  if (!use.gathers) return;
  Slot& slot = slots_[use.slot];
  slot.taken = true;
  most_gathered_ = std::max(most_gathered_, num_taken());
  const CallOptions call = {.purpose = Purpose::parameter, .background = options_.prefetch > 0};
  const TensorView whole = memory_of(use);
  if (!from_host_) {
    slot.gather =
        world_.all_gather(stream, whole, shard_in_shards(layout_, use.unit, shards_), call);
    return;
  }
  copy_from_host(stream, use.unit, whole);
  const size_t n = shard_elements(layout_, use.unit);
  slot.gather = world_.all_gather(copies_, whole, whole.rows(world_.rank() * n, n), call);
}

void UnitGatherer::copy_from_host(Stream& stream, size_t unit, TensorView whole) {
  slot_free_.record(stream);  // the model has queued all that used the slot before
  copies_.wait(slot_free_);
  const size_t n = shard_elements(layout_, unit);
  copy(copies_, whole.rows(world_.rank() * n, n), shard_in_shards(layout_, unit, shards_));
}

ConstUnitView UnitGatherer::weights(Stream& stream, size_t unit, Pass pass) {
  const Use& use = uses_.at(current_);
  check(use.unit == unit && use.pass == pass, "the model uses its units in another order");
  for (; next_ < uses_.size() && next_ <= current_ + options_.prefetch; ++next_) {
    const Use& next = uses_[next_];
    if (next.gathers && slots_[next.slot].taken) break;  // the token embedding is still in use
    start(stream, next);
  }
  slots_[use.slot].gather.wait(stream);
  return {layout_.unit(unit), memory_of(use)};
}

void UnitGatherer::done(size_t unit, Pass pass) {
  if (current_ == uses_.size()) return;  // the embeddings' backward uses no weights
  const Use& use = uses_[current_];
  check(use.unit == unit && use.pass == pass, "the model ends its units in another order");
  if (use.releases) slots_[use.slot].taken = false;
  ++current_;
}

Hooks combined(const Hooks& gather, const Hooks& scatter) {
  return {
      .weights = gather.weights, .gradient = scatter.gradient, .done = [=](size_t unit, Pass pass) {
        gather.done(unit, pass);
        scatter.done(unit, pass);
      }};
}

}  // namespace ladder
