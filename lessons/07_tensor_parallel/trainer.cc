#include "lessons/07_tensor_parallel/trainer.h"

#include <cmath>

#include "common/train/validators.h"
#include "kernels/elementwise.h"

namespace ladder {

void TensorParallelTrainer::Flags::add_to(CLI::App& app) {
  app.add_option("--tensor-parallel-size", tensor_parallel_size,
                 "Ranks that split every large weight [all]")
      ->check(whole(1, 1'000'000))
      ->group("Tensor parallel");
}

ProcessGrid TensorParallelTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  check_all_ranks("--tensor-parallel-size", flags.tensor_parallel_size, num_ranks);
  return {.tensor_size = num_ranks, .rank = rank};
}

Layout TensorParallelTrainer::layout_of(const RunConfig& config, const ProcessGrid& grid) {
  check_slices(config.model, grid.tensor_size);
  return Layout(config.model, 1,
                {.tensor_rank = grid.tensor_rank(), .tensor_size = grid.tensor_size});
}

Prediction TensorParallelTrainer::predict(const RunConfig& config, const ProcessGrid& grid,
                                          const Flags&) {
  const Layout layout = layout_of(config, grid);
  Prediction prediction = Replica::predict(config, layout, StateShare::whole(layout));
  prediction.host[Category::workspace] += SliceCollector::num_bytes(layout, config.dtype);
  if (grid.tensor_size > 1) {
    prediction.step[{Purpose::activation, Collective::all_reduce, Axis::tensor}] =
        tensor_traffic(config, layout, config.num_micro_batches(1));
  }
  return prediction;
}

TensorParallelTrainer::TensorParallelTrainer(const TrainerContext& context, const Layout& layout)
    : replica_(context, layout, StateShare::whole(layout)),
      rows_(replica_, context.groups->data()),
      collector_(context, layout) {}

StepResult TensorParallelTrainer::step() {
  const RunConfig& config = replica_.context.config;
  Stream& stream = replica_.context.stream;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  fill(stream, replica_.gradients, 0);
  for (size_t row = 0; row < config.global_batch_size; row += config.micro_batch_size) {
    // The same rows on every rank; the model sums what the ranks' slices give.
    replica_.forward(Split::train, step_, row);
    replica_.backward(1 / num_tokens);
  }
  const double loss = replica_.losses.total() / num_tokens;  // of all ranks the same
  const double norm =
      std::sqrt(sum_over(replica_.context.groups->tensor(), replica_.squared_norm()));
  const AdamWStep update = adamw_step(config.optimizer, step_, norm);
  replica_.update(update);
  return {loss, norm, update.learning_rate};
}

void TensorParallelTrainer::check_replicas() {
  check_copies(replica_, {{replica_.context.groups->tensor(),
                           [](const Parameter& parameter) { return !parameter.split; }}});
}

}  // namespace ladder
