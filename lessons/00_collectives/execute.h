// Carries out plans (plan.h) between real ranks.
#pragma once

#include <vector>

#include "common/comm/communicator.h"
#include "lessons/00_collectives/plan.h"

namespace ladder {

// Carries out this rank's exchanges on `vector`, which is in host memory. Each exchange's send runs
// in the background while the exchange receives, so ranks that exchange parts cannot wait for each
// other for ever. An exchange receives into `scratch` if it adds what it receives, or if it sends
// the same elements at the same time. REQUIRES: every rank of the group executes its exchanges of
// the same plan; `scratch` has the dtype and at least the elements of `vector`.
void execute(Communicator& ranks, Stream& stream, const std::vector<Exchange>& exchanges,
             TensorView vector, TensorView scratch);

}  // namespace ladder
