#include "lessons/06_offload/host_gradients.h"

#include "kernels/elementwise.h"

namespace ladder {

HostGradients::HostGradients(const TrainerContext& context, const Layout& layout, TensorView shards)
    : layout_(layout), shards_(shards), copies_(context.stream.device()) {
  const size_t elements = num_elements(context.config, layout);
  if (elements == 0) return;
  arriving_ = Tensor(context.host_memory, Category::workspace, shards.dtype(), {elements});
}

size_t HostGradients::num_elements(const RunConfig& config, const Layout& layout) {
  if (config.num_micro_batches(layout.world_size()) == 1) return 0;
  return layout.largest_unit() / layout.world_size();
}

Stream& HostGradients::take(size_t unit, Work& summed, ConstTensorView shard) {
  summed.wait(copies_);
  if (num_taken_++ < layout_.units().size()) {
    copy(copies_, shard_in_shards(layout_, unit, shards_), shard);
    return copies_;
  }
  add_arrived();
  copy(copies_, arriving_.view().rows(0, shard.num_elements()), shard);
  unit_ = unit;
  return copies_;
}

void HostGradients::add_arrived() {
  if (!unit_) return;
  copies_.synchronize();
  const TensorView shard = shard_in_shards(layout_, *unit_, shards_);
  add(host_, shard, shard, arriving_.view().rows(0, shard.num_elements()));
  unit_.reset();
}

void HostGradients::wait() {
  add_arrived();
  copies_.synchronize();
}

}  // namespace ladder
