#include "lessons/14_context_parallel/trainer.h"

#include <cmath>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "common/train/trainer/replicas.h"
#include "kernels/elementwise.h"

namespace ladder {

void ContextParallelTrainer::Flags::add_to(FlagTable& flags) {
  flags.heading("Context parallel");
  context.add_to(flags, "all");
  context.add_attention_to(flags);
  flags.add("--bucket-bytes", bucket_bytes,
            "Gradients are reduced in buckets of at least this size, such as 25MiB [25MiB]",
            byte_size());
  flags.add("--no-overlap", no_overlap, "Reduce the buckets after backward, not beside it");
}

ProcessGrid ContextParallelTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  const size_t size = flags.context.size == 0 ? num_ranks : flags.context.size;
  if (num_ranks % size != 0) {
    throw UserError(concat("--context-parallel-size ", size, " does not divide ",
                           counted(num_ranks, "rank"), "; ", (num_ranks / size + 1) * size,
                           " ranks would do"));
  }
  return {.data_size = num_ranks / size, .context_size = size, .rank = rank};
}

std::string ContextParallelTrainer::describe(const Flags& flags, const RunConfig& config,
                                             const ProcessGrid& grid, const SharedPlan&) {
  if (grid.context_size == 1) return {};
  if (flags.context.attention == ContextFlags::Method::ulysses) {
    return concat("  heads    a rank has ", config.model.num_heads / grid.context_size, " of ",
                  counted(config.model.num_heads, "head"), " in attention, with all tokens\n");
  }
  return describe_slices(flags.context.slicing(), config.model.sequence_length, grid.context_size);
}

ContextParallelTrainer::ContextParallelTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      ranks_(context.ranks->replicas()),
      tokens_(context, flags.context),
      layout_(context.config.model, ranks_.size()),
      state_(context, layout_, ranks_.rank(), {.gradients = {.source = context.ranks->registered}}),
      model_(context, layout_, state_.parameters, state_.gradients,
             {.part = tokens_.part(), .context = tokens_.attention()}),
      share_(context.config, context.ranks->on(Axis::data)),
      sync_(state_, ranks_, make_buckets(layout_, state_.gradients.dtype(), flags.bucket_bytes),
            {.overlap = !flags.no_overlap}) {}

StepResult ContextParallelTrainer::step() {
  const RunConfig& config = context_.config;
  // The loss is the mean over the tokens of all ranks, and so are the gradients. So a sum over the
  // ranks is all that is left to do, however many tokens each of them has.
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  fill(context_.stream, state_.gradients, 0);
  for (size_t first = share_.first(); first < share_.end(); first += config.micro_batch_size) {
    model_.load(Split::train, state_.step, first);
    model_.forward();
    model_.classify(1 / num_tokens);
    model_.backward(share_.is_last(first) ? sync_.hooks() : Hooks());
  }
  sync_.wait();
  const double loss = sum_over(ranks_, model_.total_loss()) / num_tokens;
  const double norm = std::sqrt(sum_over(ranks_, state_.squared_norm()));
  return {loss, norm, sync_.update(norm)};
}

double ContextParallelTrainer::evaluate(size_t num_batches) {
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    model_.evaluate_sequences(batch, share_.first(), share_.end());
    total += sum_over(ranks_, model_.total_loss());
  }
  return total / model_.counted_in_validation(num_batches);
}

void ContextParallelTrainer::check_replicas() { check_copies(state_, ranks_, {{ranks_}}); }

}  // namespace ladder
