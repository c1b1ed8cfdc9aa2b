// The machine's own time, which Clock does not tell in a simulation.
#pragma once

#include "kernels/runtime/clock.h"

namespace ladder {

Time real_time();

}  // namespace ladder
