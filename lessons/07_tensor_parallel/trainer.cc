#include "lessons/07_tensor_parallel/trainer.h"

#include <cmath>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "common/train/trainer/replicas.h"
#include "kernels/elementwise.h"

namespace ladder {

void TensorParallelTrainer::Flags::add_to(FlagTable& flags) {
  flags.heading("Tensor parallel");
  flags.add("--tensor-parallel-size", tensor_parallel_size,
            "Ranks that split every large weight [all]", whole(1, 1'000'000),
            {.compared = ComparedBy::layout});
}

ProcessGrid TensorParallelTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  check_all_ranks("--tensor-parallel-size", flags.tensor_parallel_size, num_ranks);
  return {.tensor_size = num_ranks, .rank = rank};
}

namespace {

Layout layout_of(const RunConfig& config, const ProcessGrid& grid) {
  check_slices(config.model, grid.tensor_size);
  return Layout(config.model, 1,
                {.tensor_rank = grid.group_rank(Axis::tensor), .tensor_size = grid.tensor_size});
}

}  // namespace

TensorParallelTrainer::TensorParallelTrainer(const TrainerContext& context, const Flags&)
    : context_(context),
      ranks_(context.ranks->on(Axis::tensor)),
      layout_(layout_of(context.config, context.ranks->grid)),
      state_(context, layout_, 0, {.muon = {.all = &ranks_}}),
      model_(context, layout_, state_.parameters, state_.gradients,
             {.tensor = tensor_parallel_on(ranks_),
              .summed = ranks_.size() > 1 ? context.ranks->registered : nullptr}),
      head_copies_(context, layout_, ranks_) {}

StepResult TensorParallelTrainer::step() {
  const RunConfig& config = context_.config;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  fill(context_.stream, state_.gradients, 0);
  for (size_t first = 0; first < config.global_batch_size; first += config.micro_batch_size) {
    // Every rank runs the same sequences. The model sums the results of the ranks' slices.
    model_.load(Split::train, state_.step, first);
    model_.forward();
    model_.classify(1 / num_tokens);
    model_.backward();
  }
  head_copies_.sum(context_.stream, state_.gradients);
  const double loss = model_.total_loss() / num_tokens;  // the same on all ranks
  const double norm = std::sqrt(sum_over(ranks_, state_.squared_norm()));
  return {loss, norm, state_.update(norm)};
}

double TensorParallelTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = context_.config;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    model_.evaluate_sequences(batch, 0, config.global_batch_size);
    total += model_.total_loss();
  }
  return total / model_.counted_in_validation(num_batches);
}

void TensorParallelTrainer::check_replicas() {
  check_copies(state_, context_.ranks->world, copies_of_slices(ranks_, layout_));
}

}  // namespace ladder
