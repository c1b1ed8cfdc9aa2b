#include "lessons/04_zero2/trainer.h"

#include <cmath>

#include "common/train/trainer/replicas.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

// Peers read the parameters in place, so they are in registered memory.
ModelState::Storages storages(const RankContext& ranks) {
  return {.parameters = {.source = ranks.registered},
          .gradients = {.is_sharded = true},
          .optimizer = {.is_sharded = true},
          .muon = {.all = &ranks.world}};
}

}  // namespace

Zero2Trainer::Zero2Trainer(const TrainerContext& context, const Flags&)
    : context_(context),
      ranks_(context.ranks->world),
      layout_(context.config.model, ranks_.size()),
      state_(context, layout_, ranks_.rank(), storages(*context.ranks)),
      model_(context, layout_, state_.parameters, {}),
      share_(context.config, ranks_),
      sync_(context, state_, ranks_) {}

StepResult Zero2Trainer::step() {
  const RunConfig& config = context_.config;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  fill(context_.stream, state_.gradients, 0);
  for (size_t first = share_.first(); first < share_.end(); first += config.micro_batch_size) {
    model_.load(Split::train, state_.step, first);
    model_.forward();
    // No rank keeps whole gradients until the last micro-batch, so each micro-batch sums them.
    const Hooks hooks = sync_.hooks();
    model_.classify(1 / num_tokens, hooks);
    model_.backward(hooks);
  }
  sync_.wait();
  const double loss = sum_over(ranks_, model_.total_loss()) / num_tokens;
  const double norm = std::sqrt(sum_over(ranks_, state_.squared_norm()));
  return {loss, norm, sync_.update(norm)};
}

void Zero2Trainer::check_replicas() { check_copies(state_, ranks_, {{ranks_}}); }

}  // namespace ladder
