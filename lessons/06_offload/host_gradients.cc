#include "lessons/06_offload/host_gradients.h"

#include "kernels/elementwise.h"

namespace ladder {

HostGradients::HostGradients(const TrainerContext& context, ModelState& state, Communicator& ranks)
    : GradientShards(context, state, ranks, 3), copies_(context.stream.device()) {
  if (context.config.num_micro_batches(layout_.world_size()) == 1) return;
  arriving_ = Tensor(context.host_memory, Category::workspace, state.gradients.dtype(),
                     {layout_.largest_unit() / layout_.world_size()});
}

Stream& HostGradients::keep(size_t unit, Work& sum, ConstTensorView shard) {
  sum.wait(copies_);
  if (num_kept_++ < layout_.trained_units().size()) {
    copy(copies_, summed(unit), shard);
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
  const TensorView shard = summed(*unit_);
  add(host_, shard, shard, arriving_.view().rows(0, shard.num_elements()));
  unit_.reset();
}

void HostGradients::wait() {
  GradientShards::wait();
  add_arrived();
  copies_.synchronize();
}

}  // namespace ladder
