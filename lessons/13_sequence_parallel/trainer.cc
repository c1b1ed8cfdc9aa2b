#include "lessons/13_sequence_parallel/trainer.h"

#include <cmath>

#include "common/train/trainer/replicas.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

Layout layout_of(const RunConfig& config, const ProcessGrid& grid, const TokenFlags& flags) {
  check_slices(config.model, grid.tensor_size);
  check_tokens(config, grid.tensor_size, flags);
  return Layout(config.model, 1,
                {.tensor_rank = grid.group_rank(Axis::tensor),
                 .tensor_size = grid.tensor_size,
                 .splits_tokens = grid.tensor_size > 1,
                 .keeps_gathered = flags.keeps()});
}

}  // namespace

void SequenceParallelTrainer::Flags::add_to(FlagTable& flags) {
  tensor.add_to(flags);
  tokens.add_to(flags);
}

SequenceParallelTrainer::SequenceParallelTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      ranks_(context.ranks->on(Axis::tensor)),
      registered_(ranks_.size() > 1 ? context.ranks->registered : nullptr),
      layout_(layout_of(context.config, context.ranks->grid, flags.tokens)),
      state_(context, layout_, 0, {.gradients = {.source = registered_}}),
      model_(context, layout_, state_.parameters, state_.gradients,
             {.tensor = sequence_parallel_on(ranks_), .summed = registered_}),
      head_copies_(context, layout_, ranks_) {}

StepResult SequenceParallelTrainer::step() {
  const RunConfig& config = context_.config;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  fill(context_.stream, state_.gradients, 0);
  for (size_t first = 0; first < config.global_batch_size; first += config.micro_batch_size) {
    // Every rank runs the same sequences; outside of the split layers it has its own rows of them.
    model_.load(Split::train, state_.step, first);
    model_.forward();
    model_.classify(1 / num_tokens);
    model_.backward();
  }
  sum_partial_gradients(context_.stream, layout_, state_.gradients, ranks_);
  head_copies_.sum(context_.stream, state_.gradients);
  const double loss = model_.total_loss() / num_tokens;  // the same on all ranks
  const double norm = std::sqrt(sum_over(ranks_, state_.squared_norm()));
  return {loss, norm, state_.update(norm)};
}

double SequenceParallelTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = context_.config;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    model_.evaluate_sequences(batch, 0, config.global_batch_size);
    total += model_.total_loss();
  }
  return total / model_.counted_in_validation(num_batches);
}

void SequenceParallelTrainer::check_replicas() {
  check_copies(state_, context_.ranks->world, copies_of_slices(ranks_, layout_));
}

}  // namespace ladder
