// Places where a test may hold a rank or a thread back, so that the others overtake it.
#pragma once

namespace ladder {

// Tests define this function (tests/delays.h); it waits for a while at some of the places. So does
// a learner's program (tools/course/grader/timing.cc), which also wants to be "told: " what
// happens. Others do not define it: its address is null there, and a call costs one comparison.
[[gnu::weak]] void delay_for_tests(const char* where);

inline void maybe_delay(const char* where) {
  if (delay_for_tests != nullptr) delay_for_tests(where);
}

}  // namespace ladder
