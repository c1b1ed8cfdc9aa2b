#include "lessons/06_offload/trainer.h"

#include "common/model/optimizer.h"

namespace ladder {
namespace {

// While one unit's gradient is computed, the next one's is summed and the one behind it copied.
constexpr size_t kSlots = 3;

StateShare share_of(const Layout& layout, const OffloadTrainer::Flags& flags,
                    MemorySource* registered) {
  StateShare share = StateShare::shards(layout);
  share.gradients.on_host = share.moment.on_host = true;
  share.parameters.on_host = flags.offload_parameters;
  if (!flags.offload_parameters) share.parameters.source = registered;
  if (flags.zero_stage == 2) share.parameters.elements = layout.num_elements();
  return share;
}

// "optimizer" or "optimizer,parameters".
bool parse_offload(const std::string& what) {
  if (what == "optimizer") return false;
  if (what == "optimizer,parameters") return true;
  throw CLI::ValidationError("--offload",
                             "expected optimizer, or optimizer,parameters; not " + what);
}

}  // namespace

void OffloadTrainer::Flags::add_to(CLI::App& app) {
  const char* const group = "Offload";
  app.add_option("--zero-stage", zero_stage, "2 or 3: shard gradients, or parameters too [2]")
      ->check(CLI::IsMember({2, 3}))
      ->group(group);
  app.add_option_function<std::string>(
         "--offload", [this](const std::string& what) { offload_parameters = parse_offload(what); },
         "What lies on the host: optimizer; or, with --zero-stage 3, optimizer,parameters "
         "[optimizer]")
      ->group(group);
  gather.add_to(app, group);
  app.final_callback([this] {
    if (offload_parameters && zero_stage != 3) {
      throw CLI::ValidationError("--offload optimizer,parameters",
                                 "needs --zero-stage 3: with stage 2 every rank uses all "
                                 "parameters where they are");
    }
  });
}

Prediction OffloadTrainer::predict(const RunConfig& config, const ProcessGrid& grid,
                                   const Flags& flags) {
  const Layout layout(config.model, grid.data_size);
  const size_t size = size_of(config.dtype), flat = layout.num_elements() * size;
  Prediction prediction = Replica::predict(config, layout, share_of(layout, flags, nullptr));
  MemoryUse &device = prediction.device, &host = prediction.host;
  device[Category::communication] = size * GradientShards::num_elements(layout, kSlots);
  if (!flags.offload_parameters) host[Category::parameters] = flat / layout.world_size();
  host[Category::workspace] += ShardCollector::num_bytes(layout, config.dtype, grid.rank) +
                               size * HostGradients::num_elements(config, layout);
  const size_t micro_batches = config.num_micro_batches(grid.data_size);
  const Traffic all_units = traffic_of_all_units(layout, config.dtype);
  Traffic gathered = all_units;
  if (flags.zero_stage == 3) {
    device[Category::communication] += size * UnitGatherer::num_elements(layout, flags.gather);
    gathered = UnitGatherer::traffic(layout, flags.gather, config.dtype).times(micro_batches);
  }
  prediction.step[{Purpose::parameter, Collective::all_gather}] = gathered;
  prediction.step[{Purpose::gradient, Collective::reduce_scatter}] = all_units.times(micro_batches);
  return prediction;
}

OffloadTrainer::OffloadTrainer(const TrainerContext& context, const Layout& layout,
                               const Flags& flags)
    : flags_(flags),
      world_(*context.world),
      replica_(context, layout, share_of(layout, flags, context.registered)),
      ranks_(replica_, world_),
      host_gradients_(context, replica_.layout, replica_.gradients),
      gradients_(context, replica_.layout, kSlots,
                 [this](Stream&, size_t unit, Work& summed, ConstTensorView shard) -> Stream& {
                   return host_gradients_.take(unit, summed, shard);
                 }),
      collector_(replica_, world_) {
  if (!flags.offload_parameters) {
    master_ = Tensor(context.host_memory, Category::parameters, context.config.dtype,
                     {layout.num_elements() / layout.world_size()});
    for (size_t unit = 0; unit < layout.units().size(); ++unit) {
      copy(context.stream, master(unit), replica_.shard(TensorKind::param, unit));
    }
    context.stream.synchronize();
  }
  if (flags.zero_stage == 3) {
    gatherer_.emplace(context, replica_.layout, replica_.parameters, flags.gather,
                      flags.offload_parameters);
  }
}

TensorView OffloadTrainer::master(size_t unit) const {
  const TensorView shards = flags_.offload_parameters ? replica_.parameters : master_;
  return shard_in_shards(replica_.layout, unit, shards);
}

Hooks OffloadTrainer::hooks(Stream& stream) {
  if (!gatherer_) return gradients_.hooks(stream);
  return combined(gatherer_->hooks(stream, UnitGatherer::Walk::training), gradients_.hooks(stream));
}

StepResult OffloadTrainer::step() {
  const RunConfig& config = replica_.context.config;
  Stream& stream = replica_.context.stream;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  host_gradients_.begin_step();
  for (size_t row = 0; row < ranks_.num_rows(); row += config.micro_batch_size) {
    const Hooks units = hooks(stream);
    replica_.forward(Split::train, step_, ranks_.first_row() + row, units);
    replica_.backward(1 / num_tokens, units);
  }
  gradients_.wait(stream);
  host_gradients_.wait();
  const double loss = sum_over(world_, replica_.losses.total()) / num_tokens;
  const double norm = ranks_.norm();
  const AdamWStep adamw = adamw_step(config.optimizer, step_, norm);
  update(adamw);
  return {loss, norm, adamw.learning_rate};
}

void OffloadTrainer::update(const AdamWStep& step) {
  Stream& stream = replica_.context.stream;
  const Layout& layout = replica_.layout;
  Trace* const trace = replica_.context.trace;
  std::vector<Work> gathers;
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    if (trace != nullptr) trace->mark();
    adamw_update(replica_.host_stream, layout, shard_begin(layout, unit, replica_.rank),
                 master(unit), replica_.shard(TensorKind::exp_avg, unit),
                 replica_.shard(TensorKind::exp_avg_sq, unit),
                 replica_.shard(TensorKind::grad, unit), step);
    if (trace != nullptr) trace->add_since_mark(concat(layout.unit(unit).name, " AdamW"));
    if (flags_.offload_parameters) continue;
    copy(stream, replica_.shard(TensorKind::param, unit), master(unit));
    if (flags_.zero_stage == 2) gathers.push_back(gather_unit(replica_, world_, unit));
  }
  for (Work& gather : gathers) gather.wait(stream);
  stream.synchronize();  // the next update overwrites what is still being copied
}

double OffloadTrainer::evaluate(size_t num_batches) {
  return ranks_.evaluate(num_batches, [&] {
    if (!gatherer_) return Hooks();
    return gatherer_->hooks(replica_.context.stream, UnitGatherer::Walk::evaluation);
  });
}

}  // namespace ladder
