// Counts calls of std::fma. The linker sends them here: for a function f with --wrap=f, a call of f
// is one of __wrap_f, and the real one is __real_f.
#include "kernels/emulator/observers.h"

namespace {

void tell() {
  using namespace ladder::emulator;
  if (is_observed) tell_observers([](Observer& observer) { observer.fused_multiply_add(); });
}

}  // namespace

extern "C" float __real_fmaf(float x, float y, float z);
extern "C" float __wrap_fmaf(float x, float y, float z) {
  tell();
  return __real_fmaf(x, y, z);
}

extern "C" double __real_fma(double x, double y, double z);
extern "C" double __wrap_fma(double x, double y, double z) {
  tell();
  return __real_fma(x, y, z);
}
