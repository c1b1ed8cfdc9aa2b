#include "lessons/03_zero1/shards.h"

#include <algorithm>

namespace ladder {

Hooks GradientScatter::hooks(Stream& stream) {
  Hooks hooks;
  hooks.done = [this, &stream](size_t unit, Pass pass) {
    if (pass != Pass::backward) return;
    const Unit& u = layout_.unit(unit);
    started_.push_back(
        world_.reduce_scatter(stream, shard_in_flat(layout_, unit, world_.rank(), gradients_),
                              gradients_.rows(u.offset, u.padded_elements),
                              {.purpose = Purpose::gradient, .background = true}));
  };
  return hooks;
}

void GradientScatter::wait(Stream& stream) {
  for (Work& work : started_) work.wait(stream);
  started_.clear();
}

TensorView shard_of(const Replica& replica, size_t rank, TensorKind kind, size_t unit) {
  const TensorView buffer = replica.buffer(kind);
  return buffer.num_elements() == replica.layout.num_elements()
             ? shard_in_flat(replica.layout, unit, rank, buffer)
             : shard_in_shards(replica.layout, unit, buffer);
}

void update_shard(Replica& replica, size_t rank, size_t unit, const AdamWStep& step) {
  const auto shard = [&](TensorKind kind) { return shard_of(replica, rank, kind, unit); };
  adamw_update(replica.context.stream, replica.layout, shard_begin(replica.layout, unit, rank),
               shard(TensorKind::param), shard(TensorKind::exp_avg), shard(TensorKind::exp_avg_sq),
               shard(TensorKind::grad), step);
}

Work gather_unit(Replica& replica, Communicator& world, size_t unit) {
  const Unit& u = replica.layout.unit(unit);
  return world.all_gather(replica.context.stream,
                          replica.parameters.view().rows(u.offset, u.padded_elements),
                          shard_of(replica, world.rank(), TensorKind::param, unit),
                          {.purpose = Purpose::parameter, .background = true});
}

void update_and_gather(Replica& replica, Communicator& world, const AdamWStep& step) {
  std::vector<Work> gathers;
  for (size_t unit = 0; unit < replica.layout.units().size(); ++unit) {
    update_shard(replica, world.rank(), unit, step);
    gathers.push_back(gather_unit(replica, world, unit));
  }
  for (Work& gather : gathers) gather.wait(replica.context.stream);
}

namespace {

size_t elements_on(const Layout& layout, size_t rank) {
  size_t largest = 0;
  for (const Unit& unit : layout.units()) largest = std::max(largest, unit.padded_elements);
  return rank == 0 ? largest : largest / layout.world_size();
}

}  // namespace

ShardCollector::ShardCollector(const TrainerContext& context, const Layout& layout)
    : context_(context),
      layout_(layout),
      host_(context.host_memory, Category::workspace, context.config.dtype,
            {elements_on(layout, context.world->rank())}) {}

size_t ShardCollector::num_bytes(const Layout& layout, DType dtype, size_t rank) {
  return elements_on(layout, rank) * size_of(dtype);
}

void ShardCollector::visit(const std::function<ConstTensorView(size_t unit)>& shard_of,
                           const TensorSink& sink) {
  Communicator& world = *context_.world;
  Stream host_stream(DeviceType::cpu);
  for (size_t unit = 0; unit < layout_.units().size(); ++unit) {
    const size_t n = shard_elements(layout_, unit);
    // Rank 0's is the first: the same place on every rank.
    const TensorView own = host_.view().elements(0, {n});
    copy(context_.stream, own, shard_of(unit));
    context_.stream.synchronize();
    if (world.rank() != 0) {
      world.send(host_stream, own, 0, {}).wait(host_stream);
      continue;
    }
    for (size_t peer = 1; peer < world.size(); ++peer) {
      world.recv(host_stream, host_.view().elements(peer * n, {n}), peer, {}).wait(host_stream);
    }
    for (const Parameter& parameter : layout_.unit(unit).parameters) {
      sink(parameter, host_.view().elements(parameter.offset, parameter.shape));
    }
  }
}

}  // namespace ladder
