// Holds ranks and threads back at the places of common/comm/delay.h, so that narrow races happen.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ladder::testing {

// From here on threads of this process wait at some places, for 20 us to 2 ms: where and how long
// follows from the seed, the rank, the where and how often it was passed since. Of the first passes
// of a where every second one waits, later one in 64. Seed 0: no delays.
void set_delays(uint64_t seed, uint64_t rank);

// From here on, whoever passes this where calls `action` there; an empty one ends that.
void set_action(const std::string& where, std::function<void()> action);

}  // namespace ladder::testing
