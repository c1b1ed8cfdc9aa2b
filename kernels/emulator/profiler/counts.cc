// Sums of what was counted.
#include <iterator>

#include "kernels/emulator/profiler/profiler.h"

namespace ladder::emulator {
namespace {

constexpr double Counts::*kAllCounts[] = {&Counts::instructions,        &Counts::global_sectors,
                                          &Counts::memory_sectors,      &Counts::shared_cycles,
                                          &Counts::shared_least_cycles, &Counts::fused_flops,
                                          &Counts::tensor_flops};
static_assert(std::size(kAllCounts) == sizeof(Counts) / sizeof(double));

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
  for (double Counts::*const count : kAllCounts) this->*count += other.*count;
  return *this;
}

Counts& Counts::operator*=(double factor) {
  for (double Counts::*const count : kAllCounts) this->*count *= factor;
  return *this;
}

}  // namespace ladder::emulator
