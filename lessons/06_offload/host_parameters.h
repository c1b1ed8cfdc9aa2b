// Parameters that live on the host and visit the device unit by unit.
#pragma once

#include "lessons/05_zero3/gather.h"

namespace ladder {

// Lesson 05's gatherer for shards in host memory: each is copied to its place on the device just
// before it is gathered, on a stream of its own.
class HostUnitGatherer final : public UnitGatherer {
 public:
  // REQUIRES: a state with parameters on the host. `source`: as UnitGatherer's; peers read a rank's
  // shard there.
  HostUnitGatherer(const TrainerContext& context, ModelState& state, Communicator& ranks,
                   const GatherOptions& options, MemorySource* source)
      : UnitGatherer(context, state, ranks, options, source), copies_(context.stream.device()) {}

 private:
  Work gather(size_t unit, TensorView whole, const CallOptions& options) override;

  Stream copies_;
  Event slot_free_;
};

}  // namespace ladder
