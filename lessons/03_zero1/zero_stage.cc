#include "lessons/03_zero1/zero_stage.h"

#include "common/train/validators.h"

namespace ladder {

void ZeroFlags::add_to(CLI::App& app, const char* group) {
  app.add_option("--zero-stage", stage,
                 "What data-parallel ranks share: 0 nothing, 1 the optimizer's state [0]")
      ->check(whole(0, 1))
      ->group(group);
  app.add_option("--bucket-bytes", bucket_bytes,
                 "Gradients are reduced in buckets of at least this size [25MiB]")
      ->transform(byte_size())
      ->group(group);
}

StateShare share_of(const Layout& layout, const ZeroFlags& flags, MemorySource* registered) {
  return flags.stage == 1 ? zero1_share(layout, registered) : StateShare::whole(layout, registered);
}

ZeroStage::ZeroStage(Replica& replica, Communicator& ranks, const ZeroFlags& flags,
                     TensorView reduced)
    : replica_(replica), ranks_(ranks) {
  if (flags.stage == 1) {
    scatter_.emplace(replica, ranks, reduced);
    shards_.emplace(replica, ranks);
  } else {
    buckets_.emplace(
        replica.gradients, ranks,
        make_buckets(replica.layout, replica.context.config.accumulation(), flags.bucket_bytes),
        true, reduced);
  }
}

void ZeroStage::add_to(Prediction& prediction, const RunConfig& config, const ProcessGrid& grid,
                       const Layout& layout, const ZeroFlags& flags, Axis axis, DType reduced) {
  if (flags.stage == 1) {
    prediction.host[Category::workspace] +=
        ShardCollector::num_bytes(layout, config.dtype, grid.data_rank());
  }
  if (axis != Axis::world && grid.data_size == 1) return;  // such a group counts nothing
  Traffic gradients = traffic_of_all_units(layout, reduced);
  if (flags.stage == 1) {
    prediction.step[{Purpose::gradient, Collective::reduce_scatter, axis}] = gradients;
    prediction.step[{Purpose::parameter, Collective::all_gather, axis}] =
        traffic_of_all_units(layout, config.dtype);
  } else {
    gradients.calls = make_buckets(layout, config.accumulation(), flags.bucket_bytes).size();
    prediction.step[{Purpose::gradient, Collective::all_reduce, axis}] = gradients;
  }
}

TensorView ZeroStage::summed_gradient(size_t unit) const {
  return scatter_ ? replica_.shard(TensorKind::grad, unit)
                  : unit_in_flat(replica_.layout, unit, replica_.gradients.view());
}

void ZeroStage::update(const AdamWStep& step) {
  scatter_ ? update_and_gather(replica_, ranks_, step) : replica_.update(step);
}

void ZeroStage::visit(TensorKind kind, const TensorSink& sink) {
  if (shards_) return shards_->visit(kind, sink);
  if (ranks_.rank() == 0) replica_.visit(kind, sink);
}

}  // namespace ladder
