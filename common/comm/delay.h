// Places where a test may hold a rank or a thread back, so that the others overtake it.
#pragma once

namespace ladder {

// Waits for a while at some of the places; tests define it (tests/delays.h). No other program does:
// the function's address is null there, and a place is a comparison that is never true.
[[gnu::weak]] void delay_for_tests(const char* place);

inline void maybe_delay(const char* place) {
  if (delay_for_tests != nullptr) delay_for_tests(place);
}

}  // namespace ladder
