#include "lessons/06_offload/host_parameters.h"

namespace ladder {

Work HostUnitGatherer::gather(size_t unit, UnitPart part, TensorView whole,
                              const CallOptions& options) {
  buffer_free_.record(state_.stream());  // all work on the buffer's last unit is queued before this
  copies_.wait(buffer_free_);
  const size_t n = shard_elements(state_.layout(), unit, part);
  const TensorView own = whole.rows(ranks_.rank() * n, n);
  copy(copies_, own, state_.parameter_shard(unit, part));
  return ranks_.all_gather(copies_, whole, own, options);
}

}  // namespace ladder
