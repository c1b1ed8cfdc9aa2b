#include "lessons/10_mixed_precision/trainer.h"

#include <cmath>

#include "common/train/flags/flag_table.h"
#include "common/train/trainer/replicas.h"
#include "kernels/elementwise.h"

namespace ladder {
void MixedPrecisionTrainer::Flags::add_to(FlagTable& flags) {
  flags.heading("Mixed precision");
  reduce.add_to(flags);
  flags.add("--no-master-weights", no_master_weights,
            "Round the masters to --dtype after every update: what a model without them learns");
  zero.add_to(flags, "Mixed precision");
  scale.add_to(flags);
}

MixedPrecisionTrainer::MixedPrecisionTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      flags_(flags),
      ranks_(context.ranks->world),
      layout_(context.config.model, ranks_.size()),
      state_(context, layout_, ranks_.rank(), zero_storages(flags.zero, context.ranks->registered)),
      model_(context, layout_, state_.parameters, state_.gradients),
      share_(context.config, ranks_),
      reduced_(flags.reduce.make_buffer(context, layout_)),
      sync_(make_reduced_sync(flags.zero, state_, ranks_, reduced_)),
      scaler_(flags.scale, context.config.dtype == DType::fp16) {
  flags.scale.check();
}

StepResult MixedPrecisionTrainer::step() {
  const RunConfig& config = context_.config;
  const double scale = state_.loss_scale = scaler_.scale();
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  fill(context_.stream, state_.gradients, 0);
  for (size_t first = share_.first(); first < share_.end(); first += config.micro_batch_size) {
    model_.load(Split::train, state_.step, first);
    model_.forward();
    model_.classify(scale / num_tokens);
    model_.backward(share_.is_last(first) ? sync_->hooks() : Hooks());
  }
  sync_->wait();
  const double loss = sum_over(ranks_, model_.total_loss()) / num_tokens;
  // An infinity on any rank makes the norm infinite or NaN on every rank, so all decide alike.
  const double norm = std::sqrt(sum_over(ranks_, state_.squared_norm())) / scale;
  StepResult result = {.loss = loss, .grad_norm = norm, .loss_scale = scale};
  result.skipped = !std::isfinite(norm);
  if (!result.skipped) result.learning_rate = update(norm);
  scaler_.update(result.skipped, state_.step);
  return result;
}

double MixedPrecisionTrainer::update(double norm) {
  const double learning_rate = sync_->update(norm);
  if (flags_.no_master_weights && !state_.optimizer.masters.view().empty()) {
    state_.masters_from_parameters();
  }
  return learning_rate;
}

std::vector<Scalar> MixedPrecisionTrainer::scalars() {
  std::vector<Scalar> scalars = Trainer::scalars();
  for (Scalar& scalar : scaler_.scalars()) scalars.push_back(std::move(scalar));
  return scalars;
}

std::vector<Slice> MixedPrecisionTrainer::slices(std::string_view kind) {
  if (kind == kGrad && state_.loss_scale != 1) {
    // The division is exact if the scale is a power of two, which it is unless the user gives
    // another.
    scale(context_.stream, state_.gradients, state_.gradients, 1 / state_.loss_scale);
    state_.loss_scale = 1;
  }
  return Trainer::slices(kind);
}

void MixedPrecisionTrainer::check_replicas() { check_copies(state_, ranks_, {{ranks_}}); }

}  // namespace ladder
