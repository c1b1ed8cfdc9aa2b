#include "kernels/runtime/clock.h"

#include "kernels/runtime/real_time.h"
#include "kernels/runtime/simulation.h"

namespace ladder {

Time Clock::now() {
  if (Simulation* const simulation = Simulation::current()) return simulation->now();
  return real_time();
}

Time real_time() { return std::chrono::steady_clock::now(); }

}  // namespace ladder
