#include "lessons/15_expert_parallel/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/data/batch.h"
#include "common/train/report/report.h"
#include "common/train/trainer/replicas.h"
#include "kernels/elementwise.h"
#include "lessons/03_zero1/shards.h"

namespace ladder {
namespace {

ModelPartition part_of(const ProcessGrid& grid) {
  return {.expert_rank = grid.group_rank(Axis::expert), .expert_size = grid.expert_size};
}

// Returns whether other ranks of the expert-parallel group hold other experts of this unit.
bool is_divided(const Unit& unit) { return unit.expert_size > 1; }

// Returns the name of a block, which its family gives it: "h.1" or "layers.1".
const std::string& name_of_block(const Layout& layout, size_t block) {
  const auto is_it = [&](const Operation& operation) {
    return operation.kind == OperationKind::block && operation.index == block;
  };
  return layout.unit(std::ranges::find_if(layout.operations(), is_it)->unit).name;
}

// Returns the buckets of lesson 02, cut wherever experts begin or end, and of these the buckets
// with experts or those without.
std::vector<Bucket> buckets_of(const Layout& layout, DType dtype, size_t bucket_bytes,
                               bool of_divided) {
  std::vector<Bucket> cut;
  for (const Bucket& bucket : make_buckets(layout, dtype, bucket_bytes)) {
    bool continues = false;
    for (size_t i = layout.units().size(); i-- > 0;) {
      const Unit& unit = layout.trained().unit(i);
      if (unit.padded_elements == 0) continue;  // it is frozen
      const bool is_in =
          bucket.offset <= unit.offset && unit.offset < bucket.offset + bucket.num_elements;
      if (!is_in || is_divided(unit) != of_divided) {
        continues = false;
        continue;
      }
      if (!continues) cut.emplace_back();
      continues = true;
      cut.back() = {.last_unit = i,
                    .offset = unit.offset,
                    .num_elements = cut.back().num_elements + unit.padded_elements};
    }
  }
  return cut;
}

std::unique_ptr<GradientSync> make_sync(const ZeroFlags& flags, ModelState& state,
                                        Communicator& ranks, bool of_divided) {
  if (flags.stage == 1) return std::make_unique<ShardSync>(state, ranks);
  return std::make_unique<BucketSync>(
      state, ranks,
      buckets_of(state.layout(), state.gradients.dtype(), flags.bucket_bytes, of_divided),
      BucketSync::Options{});
}

ExpertLayer::Options layer_options(const TrainerContext& context, const ExpertFlags& flags) {
  return {.capacity_factor = flags.capacity_factor,
          .factors = {.balance = flags.balance_loss, .z = flags.z_loss},
          .ranks = &context.ranks->on(Axis::expert),
          .registered = context.ranks->registered};
}

}  // namespace

void ExpertParallelTrainer::Flags::add_to(FlagTable& flags) {
  experts.add_to(flags);
  zero.add_to(flags, "Data parallel");
}

ProcessGrid ExpertParallelTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  return {.data_size = num_ranks,
          .rank = rank,
          .expert_size = flags.experts.parallel_size_of(num_ranks)};
}

std::string ExpertParallelTrainer::describe(const Flags& flags, const RunConfig& config,
                                            const ProcessGrid& grid, const SharedPlan&) {
  const ExpertsConfig& experts = config.model.experts;
  const ModelDescription model = ladder::describe(config.model);
  const size_t held = experts.num_experts / grid.expert_size;
  const size_t capacity = expert_capacity(config.model.sequence_length, experts.per_token,
                                          experts.num_experts, flags.experts.capacity_factor);
  return concat(
      "  experts  ", experts.num_experts, " in ",
      experts.every == 1 ? "every block" : concat("one of every ", experts.every, " blocks"),
      ", each token goes to ", experts.per_token, "; a rank holds ", held, "; ",
      with_commas(model.num_active_parameters()), " parameters for a token; ",
      capacity == config.model.sequence_length
          ? "nobody is dropped"
          : concat("an expert takes ", counted(capacity, "token"), " of a sequence"),
      "\n");
}

MixtureMaker ExpertParallelTrainer::make_mixture(const Flags&, const RunConfig& config) {
  return [dtype = config.dtype](const Layout& layout, Memory& memory, size_t tokens) {
    return std::make_unique<ExpertLayer>(memory, memory, layout, dtype, 1, tokens,
                                         ExpertLayer::Options{});
  };
}

ExpertParallelTrainer::ExpertParallelTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      ranks_(context.ranks->on(Axis::data)),
      layout_(context.config.model, ranks_.size(), part_of(context.ranks->grid)),
      state_(context, layout_, ranks_.rank(),
             zero_storages(flags.zero, context.ranks->registered,
                           {.all = &ranks_, .of_divided = &context.ranks->on(Axis::expert_data)})),
      experts_(context.device_memory, context.host_memory, layout_, context.config.dtype,
               context.config.micro_batch_size, context.config.model.sequence_length,
               layer_options(context, flags.experts)),
      model_(context, layout_, state_.parameters, state_.gradients, {.mixture = &experts_}),
      share_(context.config, ranks_),
      in_shards_(flags.zero.stage == 1),
      shared_sync_(make_sync(flags.zero, state_, ranks_, false)),
      expert_sync_(make_sync(flags.zero, state_, context.ranks->on(Axis::expert_data), true)) {}

Hooks ExpertParallelTrainer::sync_hooks() {
  Hooks hooks;
  hooks.done = [this, shared = shared_sync_->hooks(),
                experts = expert_sync_->hooks()](const Use& use) {
    (is_divided(layout_.unit(use.unit)) ? experts : shared).done(use);
  };
  return hooks;
}

StepResult ExpertParallelTrainer::step() {
  const RunConfig& config = context_.config;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  fill(context_.stream, state_.gradients, 0);
  const std::vector<size_t> lengths =
      unpadded_lengths(context_.corpus, Split::train, config.seed,
                       static_cast<uint64_t>(state_.step), 0, config.global_batch_size);
  const size_t unpadded = std::accumulate(lengths.begin(), lengths.end(), size_t{0});
  experts_.clear(context_.stream,
                 static_cast<double>(lengths.empty() ? config.tokens_per_step() : unpadded));
  for (size_t first = share_.first(); first < share_.end(); first += config.micro_batch_size) {
    model_.load(Split::train, state_.step, first);
    model_.forward();
    model_.classify(1 / num_tokens);
    model_.backward(share_.is_last(first) ? sync_hooks() : Hooks());
  }
  shared_sync_->wait();
  expert_sync_->wait();
  const double loss = sum_over(ranks_, model_.total_loss()) / num_tokens;
  const double norm = std::sqrt(sum_over(ranks_, state_.squared_norm()));
  return {loss, norm, update(norm)};
}

double ExpertParallelTrainer::update(double norm) {
  if (!in_shards_) return state_.update(norm);
  std::vector<Work> gathers;
  const double learning_rate = state_.update(norm, [&](size_t unit) {
    const Axis axis = is_divided(layout_.unit(unit)) ? Axis::expert_data : Axis::data;
    gathers.push_back(gather_unit(state_, context_.ranks->on(axis), unit));
  });
  for (Work& gather : gathers) gather.wait(context_.stream);
  return learning_rate;
}

void ExpertParallelTrainer::check_replicas() {
  check_copies(state_, ranks_,
               {{ranks_, [](const Unit& unit, const Parameter&) { return !is_divided(unit); }},
                {context_.ranks->on(Axis::expert_data),
                 [](const Unit& unit, const Parameter&) { return is_divided(unit); }}});
}

std::map<size_t, ExpertLayer::Load> ExpertParallelTrainer::loads() {
  std::map<size_t, ExpertLayer::Load> loads = experts_.loads(context_.stream);
  for (auto& [block, load] : loads) {
    for (double& n : load.kept) n = sum_over(ranks_, n);
    for (double& n : load.dropped) n = sum_over(ranks_, n);
    for (double* n : {&load.balance, &load.z, &load.entropy, &load.num_tokens}) {
      *n = sum_over(ranks_, *n);
    }
  }
  return loads;
}

std::string ExpertParallelTrainer::report() {
  std::string text;
  for (const auto& [block, load] : loads()) {
    if (load.num_tokens == 0) continue;  // its backward has not run
    const double choices =
        load.num_tokens * static_cast<double>(context_.config.model.experts.per_token);
    std::string shares, dropped;
    for (size_t expert = 0; expert < load.kept.size(); ++expert) {
      shares += format(" %.1f", 100 * (load.kept[expert] + load.dropped[expert]) / choices);
      if (load.dropped[expert] == 0) continue;
      dropped +=
          format("%s expert %zu %.0f", dropped.empty() ? ":" : ",", expert, load.dropped[expert]);
    }
    double num_dropped = 0;
    for (double n : load.dropped) num_dropped += n;
    text +=
        concat(format("  %s: balance %.4f, logsumexp^2 %.4f, entropy %.4f of %.4f\n",
                      name_of_block(layout_, block).c_str(), load.balance / load.num_tokens,
                      load.z / load.num_tokens, load.entropy / load.num_tokens,
                      std::log(static_cast<double>(load.kept.size()))),
               "    choices of each expert, %:", shares, "\n",
               format("    dropped: %.0f of %.0f choices", num_dropped, choices), dropped, "\n");
  }
  return text.empty() ? "" : "\n  routers in the last step, means over tokens\n" + text;
}

}  // namespace ladder
