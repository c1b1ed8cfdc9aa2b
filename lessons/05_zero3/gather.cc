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

namespace {

// Units that a walk reads in forward and in the classifier's pass again.
std::vector<bool> read_by_classifier_too(const Layout& layout) {
  std::vector<bool> in_forward(layout.units().size()), in_both(layout.units().size());
  for (const Use& use : evaluation_walk(layout)) {
    if (use.pass == Pass::forward) in_forward[use.unit] = true;
    if (use.pass == Pass::classifier) in_both[use.unit] = in_forward[use.unit];
  }
  return in_both;
}

}  // namespace

std::vector<UnitGatherer::Read> UnitGatherer::plan(const Layout& layout,
                                                   const GatherOptions& options,
                                                   const std::vector<Use>& walk) {
  std::vector<Read> reads;
  for (const Use& use : walk) {
    if (use.reads_weights) reads.push_back({use});
  }
  // Does a unit stay from one read to its next one?
  for (size_t i = 0; i < reads.size(); ++i) {
    const auto reads_it_again = [&](const Read& later) {
      return later.use.unit == reads[i].use.unit;
    };
    const auto next = std::find_if(reads.begin() + static_cast<std::ptrdiff_t>(i) + 1, reads.end(),
                                   reads_it_again);
    if (next == reads.end()) continue;
    const bool stays = !options.reshard_after_forward ||
                       (options.keep_embedding && next->use.pass == Pass::classifier);
    reads[i].releases = next->gathers = !stays;
  }
  // Units that the classifier reads too have a slot each, before the others. These take turns: of
  // prefetch + 1 neighbours no two share a slot. Units that stay until backward have one each.
  const std::vector<bool> in_both = read_by_classifier_too(layout);
  const auto num_own = static_cast<size_t>(std::ranges::count(in_both, true));
  size_t turn = 0;
  for (Read& read : reads) {
    const size_t unit = read.use.unit;
    if (!options.reshard_after_forward) {
      read.slot = unit;
    } else if (in_both[unit]) {
      read.slot = static_cast<size_t>(
          std::count(in_both.begin(), in_both.begin() + static_cast<std::ptrdiff_t>(unit), true));
    } else {
      read.slot = num_own + turn++ % (options.prefetch + 1);
    }
  }
  return reads;
}

std::vector<size_t> UnitGatherer::slot_elements(const Layout& layout,
                                                const GatherOptions& options) {
  std::vector<size_t> elements;
  size_t largest = 0;
  const std::vector<bool> in_both = read_by_classifier_too(layout);
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    const size_t padded = layout.unit(unit).padded_elements;
    if (!options.reshard_after_forward || in_both[unit]) {
      elements.push_back(padded);
    } else {
      largest = std::max(largest, padded);
    }
  }
  if (options.reshard_after_forward) {
    elements.resize(elements.size() + options.prefetch + 1, largest);
  }
  return elements;
}

Traffic UnitGatherer::traffic(const Layout& layout, const GatherOptions& options, DType dtype) {
  Traffic traffic;
  for (const Read& read : plan(layout, options, training_walk(layout))) {
    if (!read.gathers) continue;
    ++traffic.calls;
    traffic.payload_bytes += layout.unit(read.use.unit).padded_elements * size_of(dtype);
  }
  return traffic;
}

UnitGatherer::UnitGatherer(const TrainerContext& context, ModelState& state, Communicator& ranks,
                           const GatherOptions& options, MemorySource* source)
    : state_(state), ranks_(ranks), options_(options) {
  for (size_t elements : slot_elements(state.layout(), options)) {
    slots_.emplace_back().memory = Tensor(context.device_memory, Category::communication,
                                          state.parameters.dtype(), {elements}, source);
  }
}

Hooks UnitGatherer::hooks(const std::vector<Use>& walk) {
  check(num_taken() == 0, "the micro-batch before has not released its units");
  reads_ = plan(state_.layout(), options_, walk);
  current_ = next_ = 0;
  Hooks hooks;
  hooks.weights = [this](const Use& use) { return weights(use); };
  hooks.done = [this](const Use& use) { done(use); };
  return hooks;
}

size_t UnitGatherer::num_taken() const {
  return static_cast<size_t>(std::ranges::count(slots_, true, &Slot::taken));
}

TensorView UnitGatherer::memory_of(const Read& read) const {
  const Unit& unit = state_.layout().unit(read.use.unit);
  return slots_[read.slot].memory.view().rows(0, unit.padded_elements);
}

void UnitGatherer::start(const Read& read) {
  if (!read.gathers) return;
  Slot& slot = slots_[read.slot];
  slot.taken = true;
  most_gathered_ = std::max(most_gathered_, num_taken());
  slot.gather = gather(read.use.unit, memory_of(read),
                       {.purpose = Purpose::parameter, .background = options_.prefetch > 0});
}

Work UnitGatherer::gather(size_t unit, TensorView whole, const CallOptions& options) {
  return ranks_.all_gather(state_.stream(), whole, state_.shard(state_.parameters, unit), options);
}

ConstUnitView UnitGatherer::weights(const Use& use) {
  const Read& read = reads_.at(current_);
  check(read.use == use, "the model uses its units in another order than its walk");
  for (; next_ < reads_.size() && next_ <= current_ + options_.prefetch; ++next_) {
    const Read& next = reads_[next_];
    if (next.gathers && slots_[next.slot].taken) break;  // its slot is still in use
    start(next);
  }
  slots_[read.slot].gather.wait(state_.stream());
  return {state_.layout().unit(use.unit), memory_of(read)};
}

void UnitGatherer::done(const Use& use) {
  if (!use.reads_weights) return;
  const Read& read = reads_[current_];
  check(read.use == use, "the model ends its uses in another order than its walk");
  if (read.releases) slots_[read.slot].taken = false;
  ++current_;
}

Hooks combined(const Hooks& gather, const Hooks& scatter) {
  return {.weights = gather.weights, .gradient = scatter.gradient, .done = [=](const Use& use) {
            if (gather.done) gather.done(use);
            if (scatter.done) scatter.done(use);
          }};
}

}  // namespace ladder
