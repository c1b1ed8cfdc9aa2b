#include "lessons/21_hybrid_shard/replicated_shards.h"

namespace ladder {

ReplicatedShards::ReplicatedShards(const TrainerContext& context, ModelState& state,
                                   Communicator& shard_group, Communicator& replicas,
                                   size_t num_micro_batches)
    : GradientShards(context, state, shard_group),
      replicas_(replicas),
      num_micro_batches_(num_micro_batches),
      kept_(state.layout().units().size()) {}

Stream& ReplicatedShards::keep(size_t unit, Work& sum, ConstTensorView shard) {
  Stream& stream = GradientShards::keep(unit, sum, shard);
  if (++kept_[unit] == num_micro_batches_) {
    started_.push_back(replicas_.all_reduce(stream, summed(unit),
                                            {.purpose = Purpose::gradient, .background = true}));
  }
  return stream;
}

void ReplicatedShards::wait() {
  GradientShards::wait();
  for (Work& work : started_) work.wait(state_.stream());
  started_.clear();
  kept_.assign(kept_.size(), 0);
}

}  // namespace ladder
