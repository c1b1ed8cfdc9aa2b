// Parameters that are on the host, and are copied to the device unit by unit.
#pragma once

#include "lessons/05_zero3/gather.h"

namespace ladder {

// HostUnitGatherer is lesson 05's gatherer for shards in host memory. Just before a unit is
// gathered, this rank's shard is copied to its place in the unit's buffer, on a stream for copies.
class HostUnitGatherer final : public UnitGatherer {
 public:
  // REQUIRES: the state has its parameters on the host.
  HostUnitGatherer(const TrainerContext& context, ModelState& state, Communicator& ranks,
                   const GatherOptions& options)
      : UnitGatherer(context, state, ranks, options), copies_(context.stream.device()) {}

 private:
  Work gather(size_t unit, UnitPart part, TensorView whole, const CallOptions& options) override;

  Stream copies_;
  Event buffer_free_;
};

}  // namespace ladder
