#include "kernels/runtime/clock.h"

#include "kernels/runtime/simulation.h"

namespace ladder {

Time Clock::now() {
  if (Simulation* const simulation = Simulation::current()) return simulation->now();
  return std::chrono::steady_clock::now();
}

}  // namespace ladder
