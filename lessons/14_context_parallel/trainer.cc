#include "lessons/14_context_parallel/trainer.h"

#include <cmath>
#include <numeric>

#include "common/train/replicas.h"
#include "common/train/report.h"
#include "common/train/validators.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

using Flags = ContextParallelTrainer::Flags;
using Method = ContextParallelTrainer::Method;

// Throws UserError if ranks cannot share sequences as the flags say.
SlicePlan slices_of(const RunConfig& config, const ProcessGrid& grid, const Flags& flags) {
  const size_t heads = config.model.num_heads, divisor = std::gcd(grid.world_size(), heads);
  if (flags.attention == Method::ulysses && heads % grid.context_size != 0) {
    throw UserError(concat("--attention ulysses: --context-parallel-size ", grid.context_size,
                           " does not divide the model's ", counted(heads, "head"), "; ", divisor,
                           " would do, and --attention ring takes any size"));
  }
  return SlicePlan(flags.slicing(), config.model.sequence_length, grid.context_size);
}

std::unique_ptr<RingAttention> make_ring(const TrainerContext& context, const SlicePlan& slices,
                                         const Flags& flags) {
  if (slices.num_ranks() == 1 || flags.attention != Method::ring) return nullptr;
  return std::make_unique<RingAttention>(context, slices, context.ranks->on(Axis::context));
}

std::unique_ptr<UlyssesAttention> make_ulysses(const TrainerContext& context,
                                               const SlicePlan& slices, const Flags& flags) {
  if (slices.num_ranks() == 1 || flags.attention != Method::ulysses) return nullptr;
  const Gpt2Config& model = context.config.model;
  return std::make_unique<UlyssesAttention>(context, slices, context.ranks->on(Axis::context),
                                            model.hidden, model.num_heads);
}

}  // namespace

void ContextParallelTrainer::Flags::add_to(CLI::App& app) {
  const char* const group = "Context parallel";
  app.add_option("--context-parallel-size", context_parallel_size,
                 "Ranks that share each sequence [all]")
      ->check(whole(1, 1'000'000))
      ->group(group);
  const auto set_attention = [this](const std::string& name) {
    attention = name == "ring" ? Method::ring : Method::ulysses;
  };
  app.add_option_function<std::string>(
         "--attention", set_attention,
         "How attention sees other ranks' tokens: ring or ulysses (all tokens of some heads) "
         "[ring]")
      ->check(CLI::IsMember({"ring", "ulysses"}).description(""))
      ->group(group);
  const auto set_slices = [this](const std::string& name) {
    slices = name == "zigzag" ? Slicing::zigzag : Slicing::contiguous;
  };
  app.add_option_function<std::string>(
         "--slices", set_slices,
         "Of a rank: contiguous (one slice) or zigzag (an early and a "
         "late one) [zigzag, for ulysses contiguous]")
      ->check(CLI::IsMember({"contiguous", "zigzag"}).description(""))
      ->group(group);
  app.add_option("--bucket-bytes", bucket_bytes,
                 "Gradients are reduced in buckets of at least this size, such as 25MiB [25MiB]")
      ->transform(byte_size())
      ->group(group);
  app.add_flag("--no-overlap", no_overlap, "Reduce the buckets after backward, not beside it")
      ->group(group);
}

ProcessGrid ContextParallelTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  const size_t size = flags.context_parallel_size == 0 ? num_ranks : flags.context_parallel_size;
  if (num_ranks % size != 0) {
    throw UserError(concat("--context-parallel-size ", size, " does not divide ",
                           counted(num_ranks, "rank"), "; ", (num_ranks / size + 1) * size,
                           " ranks would do"));
  }
  return {.data_size = num_ranks / size, .context_size = size, .rank = rank};
}

TrafficEntries ContextParallelTrainer::traffic(const RunConfig& config, const ProcessGrid& grid,
                                               const Flags& flags) {
  const Layout layout(config.model, grid.world_size());
  const DType dtype = config.accumulation();
  const SlicePlan slices = slices_of(config, grid, flags);
  TrafficEntries traffic = flags.attention == Method::ring ? ring_traffic(config, slices, grid)
                                                           : ulysses_traffic(config, slices, grid);
  traffic[{Purpose::gradient, Collective::all_reduce}] = {
      .calls = make_buckets(layout, dtype, flags.bucket_bytes).size(),
      .payload_bytes = layout.num_elements() * size_of(dtype)};
  return traffic;
}

std::string ContextParallelTrainer::describe(const RunConfig& config, const ProcessGrid& grid,
                                             const Flags& flags) {
  if (grid.context_size == 1) return {};
  if (flags.attention == Method::ulysses) {
    return concat("  heads    a rank has ", config.model.num_heads / grid.context_size, " of ",
                  counted(config.model.num_heads, "head"), " in attention, with all tokens\n");
  }
  return describe_slices(flags.slicing(), config.model.sequence_length, grid.context_size);
}

ContextParallelTrainer::ContextParallelTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      world_(context.ranks->world),
      slices_(slices_of(context.config, context.ranks->grid, flags)),
      ring_(make_ring(context, slices_, flags)),
      ulysses_(make_ulysses(context, slices_, flags)),
      layout_(context.config.model, world_.size()),
      state_(context, layout_, world_.rank(), {.gradients = {.source = context.ranks->registered}}),
      model_(context, layout_, state_.parameters, state_.gradients, model_options()),
      share_(context.config, context.ranks->on(Axis::data)),
      sync_(state_, world_, make_buckets(layout_, state_.gradients.dtype(), flags.bucket_bytes),
            {.overlap = !flags.no_overlap}) {}

ModelRunner::Options ContextParallelTrainer::model_options() const {
  if (slices_.num_ranks() == 1) return {};
  const size_t rank = context_.ranks->grid.place(Axis::context);
  return {.part = {.positions = slices_.positions(rank), .most_tokens = slices_.most_tokens()},
          .context = ring_ ? ring_->functions() : ulysses_->functions()};
}

StepResult ContextParallelTrainer::step() {
  const RunConfig& config = context_.config;
  // The loss is the mean over the tokens of all ranks, and so are the gradients. So a sum over the
  // ranks is all that is left to do, however many tokens each of them has.
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++state_.step;
  fill(context_.stream, state_.gradients, 0);
  for (size_t first = share_.first(); first < share_.end(); first += config.micro_batch_size) {
    model_.load(Split::train, state_.step, first);
    model_.forward();
    model_.classify(1 / num_tokens);
    model_.backward(share_.is_last(first) ? sync_.hooks() : Hooks());
  }
  sync_.wait();
  const double loss = sum_over(world_, model_.total_loss()) / num_tokens;
  const double norm = std::sqrt(sum_over(world_, state_.squared_norm()));
  const AdamWStep step = state_.optimizer.next_step(norm);
  sync_.update(step);
  return {loss, norm, step.learning_rate};
}

double ContextParallelTrainer::evaluate(size_t num_batches) {
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    model_.evaluate_sequences(batch, share_.first(), share_.end());
    total += sum_over(world_, model_.total_loss());
  }
  return total / static_cast<double>(num_batches * context_.config.tokens_per_step());
}

void ContextParallelTrainer::check_replicas() { check_copies(state_, world_, {{world_}}); }

}  // namespace ladder
