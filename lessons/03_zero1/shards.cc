#include "lessons/03_zero1/shards.h"

#include "kernels/elementwise.h"

namespace ladder {

StateShare zero1_share(const Layout& layout, MemorySource* registered) {
  StateShare share = StateShare::whole(layout, registered);
  share.moment = StateShare::shards(layout).moment;
  share.parameters.source = registered;
  return share;
}

Hooks GradientScatter::hooks(Stream& stream) {
  Hooks hooks;
  hooks.done = [this, &stream](size_t unit, Pass pass) {
    if (pass != Pass::backward) return;
    const Layout& layout = replica_.layout;
    const TensorView gradients = replica_.gradients;
    const TensorView flat = reduced_.empty() ? gradients : reduced_;
    const TensorView whole = unit_in_flat(layout, unit, flat);
    if (!reduced_.empty()) cast(stream, whole, unit_in_flat(layout, unit, gradients));
    started_.push_back(world_.reduce_scatter(stream, replica_.shard_of(flat, unit), whole,
                                             {.purpose = Purpose::gradient, .background = true}));
  };
  return hooks;
}

void GradientScatter::wait(Stream& stream) {
  for (Work& work : started_) work.wait(stream);
  started_.clear();
  for (size_t unit = 0; unit < replica_.layout.units().size() && !reduced_.empty(); ++unit) {
    cast(stream, replica_.shard(TensorKind::grad, unit), replica_.shard_of(reduced_, unit));
  }
}

Traffic traffic_of_all_units(const Layout& layout, DType dtype) {
  return {.calls = layout.units().size(), .payload_bytes = layout.num_elements() * size_of(dtype)};
}

void update_shard(Replica& replica, size_t unit, const AdamWStep& step) {
  Trace* const trace = replica.context.trace;
  if (trace != nullptr) trace->mark();
  adamw_update(
      replica.context.stream, replica.layout, shard_begin(replica.layout, unit, replica.rank),
      replica.shard(TensorKind::param, unit), replica.shard(TensorKind::exp_avg, unit),
      replica.shard(TensorKind::exp_avg_sq, unit), replica.shard(TensorKind::grad, unit), step);
  if (!replica.master.view().empty()) {
    cast(replica.context.stream, replica.shard_of(replica.parameters, unit),
         replica.shard(TensorKind::param, unit));
  }
  if (trace != nullptr) trace->add_since_mark(concat(replica.layout.unit(unit).name, " AdamW"));
}

Work gather_unit(Replica& replica, Communicator& world, size_t unit) {
  return world.all_gather(replica.context.stream,
                          unit_in_flat(replica.layout, unit, replica.parameters.view()),
                          replica.shard_of(replica.parameters, unit),
                          {.purpose = Purpose::parameter, .background = true});
}

void update_and_gather(Replica& replica, Communicator& world, const AdamWStep& step) {
  std::vector<Work> gathers;
  for (size_t unit = 0; unit < replica.layout.units().size(); ++unit) {
    update_shard(replica, unit, step);
    gathers.push_back(gather_unit(replica, world, unit));
  }
  for (Work& gather : gathers) gather.wait(replica.context.stream);
}

namespace {

size_t elements_on(const Layout& layout, size_t rank) {
  return rank == 0 ? layout.largest_unit() : layout.largest_unit() / layout.world_size();
}

}  // namespace

ShardCollector::ShardCollector(const Replica& replica, Communicator& world)
    : replica_(replica),
      world_(world),
      host_(replica.context.host_memory, Category::workspace, replica.context.config.accumulation(),
            {elements_on(replica.layout, replica.rank)}) {}

size_t ShardCollector::num_bytes(const Layout& layout, DType dtype, size_t rank) {
  return elements_on(layout, rank) * size_of(accumulation_dtype(dtype));
}

void ShardCollector::visit(TensorKind kind, const TensorSink& sink) {
  const Layout& layout = replica_.layout;
  Stream& stream = replica_.context.stream;
  Stream host_stream(DeviceType::cpu);
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    const size_t n = shard_elements(layout, unit);
    // Rank 0's is the first: the same place on every rank.
    const TensorView own = host_.view().elements(0, {n});
    copy(stream, own, replica_.shard(kind, unit));
    stream.synchronize();
    if (world_.rank() != 0) {
      world_.send(host_stream, own, 0, {}).wait(host_stream);
      continue;
    }
    for (size_t peer = 1; peer < world_.size(); ++peer) {
      world_.recv(host_stream, host_.view().elements(peer * n, {n}), peer, {}).wait(host_stream);
    }
    for (const Parameter& parameter : layout.unit(unit).parameters) {
      sink(parameter, host_.view().elements(parameter.offset, parameter.shape));
    }
  }
}

}  // namespace ladder
