#include "lessons/03_zero1/trainer.h"

#include <cmath>

#include "common/train/trainer/replicas.h"
#include "kernels/elementwise.h"

namespace ladder {

Zero1Trainer::Zero1Trainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      ranks_(context.ranks->world),
      layout_(context.config.model, ranks_.size()),
      state_(context, layout_, ranks_.rank(),
             zero_storages(flags.zero, context.ranks->registered, {.all = &ranks_})),
      model_(context, layout_, state_.parameters, state_.gradients),
      share_(context.config, ranks_),
      sync_(make_zero_sync(flags.zero, state_, ranks_)) {}

StepResult Zero1Trainer::step() {
  const RunConfig& config = context_.config;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  fill(context_.stream, state_.gradients, 0);
  for (size_t first = share_.first(); first < share_.end(); first += config.micro_batch_size) {
    model_.load(Split::train, state_.step, first);
    model_.forward();
    model_.classify(1 / num_tokens);
    model_.backward(share_.is_last(first) ? sync_->hooks() : Hooks());
  }
  sync_->wait();
  const double loss = sum_over(ranks_, model_.total_loss()) / num_tokens;
  const double norm = std::sqrt(sum_over(ranks_, state_.squared_norm()));
  return {loss, norm, sync_->update(norm)};
}

void Zero1Trainer::check_replicas() { check_copies(state_, ranks_, {{ranks_}}); }

}  // namespace ladder
