// The one clock that everything is timed by.
#pragma once

#include <chrono>

namespace ladder {

// Goes on evenly, whoever sets the machine's time of day. All processes of a machine share it.
using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

inline double seconds_between(Time begin, Time end) {
  return std::chrono::duration<double>(end - begin).count();
}
inline double seconds_since(Time begin) { return seconds_between(begin, Clock::now()); }

}  // namespace ladder
