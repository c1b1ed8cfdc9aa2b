#include "lessons/06_offload/trainer.h"

#include <cmath>

#include "common/train/flags/flag_table.h"
#include "common/train/trainer/replicas.h"
#include "lessons/03_zero1/shards.h"
#include "lessons/06_offload/host_parameters.h"

namespace ladder {
namespace {

// Stage 2 has whole parameters on the device; stage 3 has shards, on the device or on the host.
// Peers read parameters on the device in place, so these are in registered memory.
ModelState::Storages storages(const OffloadTrainer::Flags& flags, MemorySource* registered) {
  const bool offloads = flags.offload_parameters;
  return {.parameters = {.is_sharded = flags.zero_stage == 3,
                         .on_host = offloads,
                         .source = offloads ? nullptr : registered},
          .gradients = {.is_sharded = true, .on_host = true},
          .optimizer = {.is_sharded = true, .on_host = true}};
}

std::unique_ptr<UnitGatherer> make_gatherer(const TrainerContext& context, ModelState& state,
                                            const OffloadTrainer::Flags& flags) {
  if (flags.zero_stage == 2) return nullptr;
  Communicator& ranks = context.ranks->world;
  if (!flags.offload_parameters) {
    return std::make_unique<UnitGatherer>(context, state, ranks, flags.gather);
  }
  return std::make_unique<HostUnitGatherer>(context, state, ranks, flags.gather);
}

// Reads --offload, which is "optimizer" or "optimizer,parameters". Returns whether it names the
// parameters.
bool parse_offload(const std::string& what) {
  if (what == "optimizer") return false;
  if (what == "optimizer,parameters") return true;
  throw CLI::ValidationError("--offload",
                             "expected optimizer, or optimizer,parameters; not " + what);
}

}  // namespace

void OffloadTrainer::Flags::add_to(FlagTable& flags) {
  flags.heading("Offload");
  flags.add("--zero-stage", zero_stage, "2 or 3: shard gradients, or parameters too [2]",
            CLI::IsMember({2, 3}));
  flags.add_function(
      "--offload", [this](const std::string& what) { offload_parameters = parse_offload(what); },
      "What lies on the host: optimizer; or, with --zero-stage 3, optimizer,parameters "
      "[optimizer]");
  gather.add_to(flags, "Offload");
  flags.app().final_callback([this] {
    if (offload_parameters && zero_stage != 3) {
      throw CLI::ValidationError("--offload optimizer,parameters",
                                 "needs --zero-stage 3: with stage 2 every rank uses all "
                                 "parameters where they are");
    }
  });
}

OffloadTrainer::OffloadTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      flags_(flags),
      ranks_(context.ranks->world),
      layout_(context.config.model, ranks_.size()),
      state_(context, layout_, ranks_.rank(), storages(flags, context.ranks->registered)),
      model_(context, layout_, flags.zero_stage == 2 ? state_.parameters.view() : TensorView(), {}),
      share_(context.config, ranks_),
      gatherer_(make_gatherer(context, state_, flags)),
      sync_(context, state_, ranks_) {}

Hooks OffloadTrainer::weights(const std::vector<Use>& walk) {
  return gatherer_ ? gatherer_->hooks(walk) : Hooks();
}

StepResult OffloadTrainer::step() {
  const RunConfig& config = context_.config;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  sync_.begin_step();
  for (size_t first = share_.first(); first < share_.end(); first += config.micro_batch_size) {
    const Hooks hooks = combined(weights(model_.training_walk()), sync_.hooks());
    model_.load(Split::train, state_.step, first);
    model_.forward(hooks);
    model_.classify(1 / num_tokens, hooks);
    model_.backward(hooks);
  }
  sync_.wait();
  const double loss = sum_over(ranks_, model_.total_loss()) / num_tokens;
  const double norm = std::sqrt(sum_over(ranks_, state_.squared_norm()));
  return {loss, norm, update(norm)};
}

double OffloadTrainer::update(double norm) {
  std::vector<Work> gathers;
  const double learning_rate = state_.update(norm, [&](size_t unit) {  // after a unit's update
    if (flags_.offload_parameters) return;
    copy(context_.stream, state_.parameter_shard(unit),
         state_.shard(state_.optimizer.masters, unit));
    if (flags_.zero_stage == 2) gathers.push_back(gather_unit(state_, ranks_, unit));
  });
  for (Work& gather : gathers) gather.wait(context_.stream);
  context_.stream.synchronize();  // the next update overwrites the parameters on the host
  return learning_rate;
}

void OffloadTrainer::check_replicas() {
  if (flags_.zero_stage == 2) check_copies(state_, ranks_, {{ranks_}});
}

double OffloadTrainer::evaluate(size_t num_batches) {
  return share_.evaluate(model_, num_batches, [&] { return weights(evaluation_walk(layout_)); });
}

}  // namespace ladder
