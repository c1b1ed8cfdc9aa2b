// How the emulator tells its observers. See access.h.
#pragma once

#include <array>
#include <span>

#include "kernels/emulator/access.h"

namespace ladder::emulator {

// The attached observers, in the order in which they were attached.
struct Observers {
  std::array<Observer*, 4> all;
  size_t count;
};
inline constinit Observers observers = {};

// A kernel has called the emulator. Until this object's end the emulator's own code runs, and what
// that accesses is nobody's business, even in functions that the compiler took from a .cu file.
// Then the kernel goes on, unless it is being abandoned.
class Unobserved {
 public:
  explicit Unobserved(const bool& abandoning = kNever) : abandoning_(abandoning) {
    is_observed = false;
  }
  ~Unobserved() { is_observed = before_ && !abandoning_; }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;

 private:
  static constexpr bool kNever = false;
  bool before_ = is_observed;
  const bool& abandoning_;
};

// Calls f(observer) for each of them.
template <class Function>
void tell_observers(Function f) {
  for (Observer* observer : std::span(observers.all).first(observers.count)) f(*observer);
}

}  // namespace ladder::emulator
