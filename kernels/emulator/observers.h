// How the emulator tells its observers. See access.h.
#pragma once

#include <vector>

#include "kernels/emulator/access.h"

namespace ladder::emulator {

// The attached observers, in the order in which they were attached.
std::vector<Observer*>& observers();

// Calls f(observer) for each of them.
template <class Function>
void tell_observers(Function f) {
  for (Observer* observer : observers()) f(*observer);
}

}  // namespace ladder::emulator
