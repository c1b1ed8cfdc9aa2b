// Carries out plans between ranks.
#pragma once

#include <vector>

#include "common/comm/communicator.h"
#include "lessons/00_collectives/plan.h"

namespace ladder {

// Carries out this rank's steps on `vector`, in host memory. Each step's send runs in the
// background while the step receives, so ranks that change parts cannot wait for each other for
// ever. What is received goes through `scratch` where it is added, or where the same step sends
// those elements. REQUIRES: every rank of the group executes its steps of the same plan; `scratch`
// has the dtype and at least the elements of `vector`.
void execute(Communicator& ranks, Stream& stream, const std::vector<Step>& steps, TensorView vector,
             TensorView scratch);

}  // namespace ladder
