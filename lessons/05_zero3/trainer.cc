#include "lessons/05_zero3/trainer.h"

#include <cmath>

#include "common/train/trainer/replicas.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

// Everything is sharded. Peers read the parameters in place, so they are in registered memory.
ModelState::Storages storages(const RankContext& ranks) {
  return {.parameters = {.is_sharded = true, .source = ranks.registered},
          .gradients = {.is_sharded = true},
          .optimizer = {.is_sharded = true},
          .muon = {.all = &ranks.world}};
}

}  // namespace

Zero3Trainer::Zero3Trainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      ranks_(context.ranks->world),
      layout_(context.config.model, ranks_.size()),
      state_(context, layout_, ranks_.rank(), storages(*context.ranks)),
      model_(context, layout_, {}, {}),
      share_(context.config, ranks_),
      gatherer_(context, state_, ranks_, flags.gather),
      sync_(context, state_, ranks_) {}

StepResult Zero3Trainer::step() {
  const RunConfig& config = context_.config;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  fill(context_.stream, state_.gradients, 0);
  for (size_t first = share_.first(); first < share_.end(); first += config.micro_batch_size) {
    const Hooks hooks = combined(gatherer_.hooks(model_.training_walk()), sync_.hooks());
    model_.load(Split::train, state_.step, first);
    model_.forward(hooks);
    model_.classify(1 / num_tokens, hooks);
    model_.backward(hooks);
  }
  sync_.wait();
  const double loss = sum_over(ranks_, model_.total_loss()) / num_tokens;
  const double norm = std::sqrt(sum_over(ranks_, state_.squared_norm()));
  // Updates this rank's shards, which the next forward gathers.
  return {loss, norm, state_.update(norm)};
}

double Zero3Trainer::evaluate(size_t num_batches) {
  return share_.evaluate(model_, num_batches,
                         [&] { return gatherer_.hooks(evaluation_walk(layout_)); });
}

}  // namespace ladder
