#include "lessons/05_zero3/gather.h"

#include <algorithm>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "common/train/trainer/ranks.h"
#include "kernels/runtime/check.h"

namespace ladder {

void GatherOptions::add_to(FlagTable& flags, const char* heading) {
  flags.heading(heading);
  flags.add("--prefetch", prefetch,
            "Units whose parameters are gathered ahead of the one in use [1]", whole(0, 1000));
  flags.add("--keep-embedding", keep_embedding,
            "Gather the token embedding once for embedding and classifier");
  flags.add("--no-reshard-after-forward{false}", reshard_after_forward,
            "Keep every unit's parameters from forward to backward");
}

std::vector<UnitGatherer::Read> UnitGatherer::plan(const GatherOptions& options,
                                                   const std::vector<Use>& walk) {
  std::vector<Read> reads;
  for (const Use& use : walk) {
    if (!use.reads_weights) continue;
    // Find the unit's last read, from which the weights may stay until this one. They always do
    // from a block's recompute to its backward, with no other read between the two.
    const auto before = std::find_if(reads.rbegin(), reads.rend(),
                                     [&](const Read& read) { return read.use.unit == use.unit; });
    const bool stays =
        before != reads.rend() && (before == reads.rbegin() || !options.reshard_after_forward ||
                                   (options.keep_embedding && use.pass == Pass::classifier));
    if (stays) before->releases = false;
    reads.push_back({.use = use, .gathers = !stays});
  }
  return reads;
}

UnitGatherer::UnitGatherer(const TrainerContext& context, ModelState& state, Communicator& ranks,
                           const GatherOptions& options)
    : state_(state), ranks_(ranks), options_(options) {
  const Layout& layout = state.layout();
  // The classifier's unit is also used by an earlier operation, so it gets a buffer of its own.
  // Without resharding all units do, since they stay from forward to backward.
  std::vector<bool> has_own(layout.units().size(), !options.reshard_after_forward);
  for (const Use& use : evaluation_walk(layout)) {
    if (use.pass == Pass::classifier) has_own[use.unit] = true;
  }
  const size_t num_turns = options.reshard_after_forward ? options.prefetch + 1 : 0;
  const BufferPlan plan = plan_buffers(layout, has_own, num_turns);
  buffer_of_unit_ = plan.buffer_of_unit;
  for (size_t elements : plan.elements) {
    buffers_.emplace_back().memory =
        Tensor(context.device_memory, Category::communication, state.parameters.dtype(), {elements},
               context.ranks->registered);
  }
}

Hooks UnitGatherer::hooks(const std::vector<Use>& walk) {
  check(num_taken() == 0, "the micro-batch before has not released its units");
  reads_ = plan(options_, walk);
  current_ = next_ = 0;
  Hooks hooks;
  hooks.weights = [this](const Use& use) { return weights(use); };
  hooks.done = [this](const Use& use) { done(use); };
  return hooks;
}

size_t UnitGatherer::num_taken() const {
  return static_cast<size_t>(std::ranges::count(buffers_, true, &Buffer::taken));
}

TensorView UnitGatherer::memory_of(size_t unit) {
  return buffer_of(unit).memory.view().rows(0, state_.layout().unit(unit).padded_elements);
}

void UnitGatherer::start(const Read& read) {
  if (!read.gathers) return;
  const size_t unit = read.use.unit;
  buffer_of(unit).taken = true;
  most_gathered_ = std::max(most_gathered_, num_taken());
  const Unit& u = state_.layout().unit(unit);
  for (const UnitPart part : kUnitParts) {
    if (u.elements_of(part) == 0) continue;
    const TensorView whole = memory_of(unit).rows(u.begin_of(part), u.elements_of(part));
    buffer_of(unit).gathers.push_back(gather(
        unit, part, whole, {.purpose = Purpose::parameter, .background = options_.prefetch > 0}));
  }
}

Work UnitGatherer::gather(size_t unit, UnitPart part, TensorView whole,
                          const CallOptions& options) {
  return ranks_.all_gather(state_.stream(), whole, state_.parameter_shard(unit, part), options);
}

ConstUnitView UnitGatherer::weights(const Use& use) {
  const Read& read = reads_.at(current_);
  check(read.use == use, "the model uses its units in another order than its walk");
  for (; next_ < reads_.size() && next_ <= current_ + options_.prefetch; ++next_) {
    const Read& next = reads_[next_];
    if (next.gathers && buffer_of(next.use.unit).taken)
      break;  // the buffer still holds another unit
    start(next);
  }
  for (Work& gather : buffer_of(use.unit).gathers) gather.wait(state_.stream());
  buffer_of(use.unit).gathers.clear();
  return {state_.layout().unit(use.unit), memory_of(use.unit)};
}

void UnitGatherer::done(const Use& use) {
  if (!use.reads_weights) return;
  const Read& read = reads_[current_];
  check(read.use == use, "the model ends its uses in another order than its walk");
  if (read.releases) buffer_of(use.unit).taken = false;
  ++current_;
}

Hooks combined(const Hooks& gather, const Hooks& scatter) {
  return {.weights = gather.weights, .gradient = scatter.gradient, .done = [=](const Use& use) {
            if (gather.done) gather.done(use);
            if (scatter.done) scatter.done(use);
          }};
}

}  // namespace ladder
