#include "lessons/12_gradient_compression/trainer.h"

#include <cmath>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "common/train/trainer/replicas.h"
#include "kernels/elementwise.h"
#include "lessons/12_gradient_compression/compressed_sync.h"
#include "lessons/12_gradient_compression/power_sgd.h"

namespace ladder {

void CompressionTrainer::Flags::add_to(FlagTable& flags) {
  compression.add_to(flags);
  flags.heading("Data parallel");
  flags.add("--bucket-bytes", bucket_bytes,
            "Gradients are summed in buckets of at least this size, before compression "
            "[25MiB]",
            byte_size());
  flags.add("--no-overlap", no_overlap, "Sum the buckets after backward, not beside it");
}

CompressionTrainer::CompressionTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      ranks_(context.ranks->world),
      layout_(context.config.model, ranks_.size()),
      state_(context, layout_, ranks_.rank(), {.gradients = {.source = context.ranks->registered}}),
      model_(context, layout_, state_.parameters, state_.gradients),
      share_(context.config, ranks_) {
  make_sync(flags);
}

void CompressionTrainer::make_sync(const Flags& flags) {
  const CompressionFlags& compression = flags.compression;
  compression.check();
  const bool overlap = !flags.no_overlap;
  std::vector<Bucket> buckets = make_buckets(layout_, state_.gradients.dtype(), flags.bucket_bytes);
  if (compression.is_none()) {
    sync_ = std::make_unique<BucketSync>(state_, ranks_, std::move(buckets),
                                         BucketSync::Options{.overlap = overlap});
    return;
  }
  std::unique_ptr<CompressionSync> sync;
  if (compression.is_powersgd()) {
    sync = std::make_unique<PowerSgdSync>(context_, state_, buckets, compression.rank(), overlap);
  } else {
    sync = std::make_unique<CompressedSync>(
        context_, state_, std::move(buckets),
        CompressedSync::Options{.codec = compression.codec(),
                                .error_feedback = compression.error_feedback,
                                .stochastic_rounding = compression.stochastic_rounding,
                                .overlap = overlap});
  }
  feedback_ = &sync->feedback();
  sync_ = std::move(sync);
}

StepResult CompressionTrainer::step() {
  const RunConfig& config = context_.config;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  fill(context_.stream, state_.gradients, 0);
  for (size_t first = share_.first(); first < share_.end(); first += config.micro_batch_size) {
    model_.load(Split::train, state_.step, first);
    model_.forward();
    model_.classify(1 / num_tokens);
    // Micro-batches add up first, so each gradient is encoded once a step.
    model_.backward(share_.is_last(first) ? sync_->hooks() : Hooks());
  }
  sync_->wait();
  const double loss = sum_over(ranks_, model_.total_loss()) / num_tokens;
  const double norm = std::sqrt(sum_over(ranks_, state_.squared_norm()));  // of the decoded sum
  return {loss, norm, sync_->update(norm)};
}

std::vector<NamedSlice> CompressionTrainer::stored() {
  std::vector<NamedSlice> slices = Trainer::stored();
  if (feedback_ == nullptr) return slices;
  for (NamedSlice& slice : feedback_->stored()) slices.push_back(std::move(slice));
  return slices;
}

void CompressionTrainer::restore(CheckpointReader& checkpoint) {
  Trainer::restore(checkpoint);
  if (feedback_ != nullptr) feedback_->restore(checkpoint);
}

void CompressionTrainer::check_replicas() { check_copies(state_, ranks_, {{ranks_}}); }

}  // namespace ladder
