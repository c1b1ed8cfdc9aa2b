#include "lessons/02_ddp/trainer.h"

#include <cmath>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "common/train/trainer/replicas.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

std::vector<Bucket> buckets_for(const Layout& layout, DType dtype, const DdpTrainer::Flags& flags) {
  if (!flags.naive) return make_buckets(layout, dtype, flags.bucket_bytes);
  return {{.offset = 0, .num_elements = layout.trained().num_elements()}};
}

}  // namespace

void DdpTrainer::Flags::add_to(FlagTable& flags) {
  flags.heading("Data parallel");
  flags.add("--bucket-bytes", bucket_bytes,
            "Gradients are reduced in buckets of at least this size, such as 25MiB [25MiB]",
            byte_size());
  flags.add("--no-overlap", no_overlap, "Reduce the buckets after backward, not beside it");
  flags.add("--naive", naive, "Reduce all gradients in one call after backward");
}

DdpTrainer::DdpTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      ranks_(context.ranks->world),
      layout_(context.config.model, ranks_.size()),
      state_(context, layout_, ranks_.rank(), {.gradients = {.source = context.ranks->registered}}),
      model_(context, layout_, state_.parameters, state_.gradients),
      share_(context.config, ranks_),
      sync_(state_, ranks_, buckets_for(layout_, context.config.accumulation(), flags),
            {.overlap = !flags.no_overlap && !flags.naive}) {}

StepResult DdpTrainer::step() {
  const RunConfig& config = context_.config;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  fill(context_.stream, state_.gradients, 0);
  for (size_t first = share_.first(); first < share_.end(); first += config.micro_batch_size) {
    model_.load(Split::train, state_.step, first);
    model_.forward();
    model_.classify(1 / num_tokens);
    // Only the last micro-batch makes gradients complete, so that they may be sent to other ranks.
    model_.backward(share_.is_last(first) ? sync_.hooks() : Hooks());
  }
  sync_.wait();
  const double loss = sum_over(ranks_, model_.total_loss()) / num_tokens;
  const double norm = std::sqrt(sum_over(ranks_, state_.squared_norm()));
  return {loss, norm, sync_.update(norm)};
}

void DdpTrainer::check_replicas() { check_copies(state_, ranks_, {{ranks_}}); }

}  // namespace ladder
