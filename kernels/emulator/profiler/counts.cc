// Sums of what was counted.
#include <iterator>

#include "kernels/emulator/profiler/profiler.h"

namespace ladder::emulator {
namespace {

constexpr double Counts::*kAllCounts[] = {
    &Counts::instructions,        &Counts::partial,           &Counts::basic_blocks,
    &Counts::divergent_branches,  &Counts::global_bytes,      &Counts::global_sectors,
    &Counts::memory_sectors,      &Counts::needed_bytes,      &Counts::shared_cycles,
    &Counts::shared_least_cycles, &Counts::special_functions, &Counts::fused_flops,
    &Counts::tensor_flops};
static_assert(std::size(kAllCounts) == (sizeof(Counts) - sizeof(Events)) / sizeof(double));

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
  for (double Counts::*const count : kAllCounts) this->*count += other.*count;
  for (size_t i = 0; i < events.size(); ++i) events[i] += other.events[i];
  return *this;
}

Counts& Counts::operator*=(double factor) {
  for (double Counts::*const count : kAllCounts) this->*count *= factor;
  for (double& event : events) event *= factor;
  return *this;
}

}  // namespace ladder::emulator
