// The clock by which everything is timed.
#pragma once

#include <chrono>

namespace ladder {

// This clock goes on evenly, even if the machine's time of day is set. All processes of a machine
// share it. In a simulation (simulation.h) it is the simulated host's.
struct Clock {
  using duration = std::chrono::steady_clock::duration;
  static std::chrono::steady_clock::time_point now();
};
using Time = std::chrono::steady_clock::time_point;

inline double seconds_between(Time begin, Time end) {
  return std::chrono::duration<double>(end - begin).count();
}
inline double seconds_since(Time begin) { return seconds_between(begin, Clock::now()); }

}  // namespace ladder
