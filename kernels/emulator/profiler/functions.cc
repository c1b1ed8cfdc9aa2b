// Counts calls of mathematical functions. The linker sends them here: for a function f with
// --wrap=f, a call of f is one of __wrap_f, and the real one is __real_f.
#include "kernels/emulator/observers.h"

namespace {

void tell(void (ladder::emulator::Observer::*what)()) {
  using namespace ladder::emulator;
  if (is_observed) tell_observers([&](Observer& observer) { (observer.*what)(); });
}

}  // namespace

#define LADDER_SPECIAL(T, f)                             \
  extern "C" T __real_##f(T x);                          \
  extern "C" T __wrap_##f(T x) {                         \
    tell(&ladder::emulator::Observer::special_function); \
    return __real_##f(x);                                \
  }
#define LADDER_FUSED(T, f)                                 \
  extern "C" T __real_##f(T x, T y, T z);                  \
  extern "C" T __wrap_##f(T x, T y, T z) {                 \
    tell(&ladder::emulator::Observer::fused_multiply_add); \
    return __real_##f(x, y, z);                            \
  }

LADDER_SPECIAL(float, expf)
LADDER_SPECIAL(float, exp2f)
LADDER_SPECIAL(float, logf)
LADDER_SPECIAL(double, exp)
LADDER_SPECIAL(double, exp2)
LADDER_SPECIAL(double, log)
LADDER_FUSED(float, fmaf)
LADDER_FUSED(double, fma)
