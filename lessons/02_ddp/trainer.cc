#include "lessons/02_ddp/trainer.h"

#include "common/train/validators.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

std::vector<Bucket> buckets_for(const Layout& layout, DType dtype, const DdpTrainer::Flags& flags) {
  if (!flags.naive) return make_buckets(layout, dtype, flags.bucket_bytes);
  return {{layout.token_embedding(), 0, layout.num_elements()}};
}

}  // namespace

void DdpTrainer::Flags::add_to(CLI::App& app) {
  const char* const group = "Data parallel";
  app.add_option("--bucket-bytes", bucket_bytes,
                 "Gradients are reduced in buckets of at least this size, such as 25MiB [25MiB]")
      ->transform(byte_size())
      ->group(group);
  app.add_flag("--no-overlap", no_overlap, "Reduce the buckets after backward, not beside it")
      ->group(group);
  app.add_flag("--naive", naive, "Reduce all gradients in one call after backward")->group(group);
}

Prediction DdpTrainer::predict(const RunConfig& config, const ProcessGrid& grid,
                               const Flags& flags) {
  const Layout layout(config.model, grid.data_size);
  Prediction prediction = Replica::predict(config, layout, StateShare::whole(layout));
  prediction.step[{Purpose::gradient, Collective::all_reduce}] = {
      .calls = buckets_for(layout, config.accumulation(), flags).size(),
      .payload_bytes = layout.num_elements() * size_of(config.accumulation())};
  return prediction;
}

DdpTrainer::DdpTrainer(const TrainerContext& context, const Flags& flags)
    : DdpTrainer(context, Layout(context.config.model, context.grid.data_size), flags) {}

DdpTrainer::DdpTrainer(const TrainerContext& context, const Layout& layout, const Flags& flags)
    : world_(*context.world),
      replica_(context, layout, StateShare::whole(layout, context.registered)),
      ranks_(replica_, world_),
      reducer_(replica_.gradients, world_,
               buckets_for(layout, context.config.accumulation(), flags),
               !flags.no_overlap && !flags.naive) {}

StepResult DdpTrainer::step() {
  const RunConfig& config = replica_.context.config;
  Stream& stream = replica_.context.stream;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  fill(stream, replica_.gradients, 0);
  for (size_t row = 0; row < ranks_.num_rows(); row += config.micro_batch_size) {
    replica_.forward(Split::train, step_, ranks_.first_row() + row);
    // Gradients are complete, and may go to the other ranks, with the last micro-batch only.
    replica_.backward(1 / num_tokens, ranks_.is_last(row) ? reducer_.hooks(stream) : Hooks());
  }
  reducer_.wait(stream);
  const double loss = sum_over(world_, replica_.losses.total()) / num_tokens;
  const double norm = ranks_.norm();
  const AdamWStep update = adamw_step(config.optimizer, step_, norm);
  replica_.update(update);
  return {loss, norm, update.learning_rate};
}

void DdpTrainer::visit(TensorKind kind, const TensorSink& sink) {
  if (world_.rank() == 0) replica_.visit(kind, sink);
}

}  // namespace ladder
