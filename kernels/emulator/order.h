// The order in which thread blocks and threads take their turns.
//
// A GPU runs them in any order. If they always ran in the order of their indices, a kernel without
// a barrier between a write and a read would be right whenever the writer has the smaller index.
// So the emulator can shuffle: the order of thread blocks, the order in which threads start, and
// the order in which those that waited go on. A seed makes it the same order in every run, if one
// thread makes all launches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ladder::emulator {

// Returns the seed of this process; 0 means the order of indices. The environment variable
// LADDER_EMULATOR_ORDER (a number) decides until set_order_seed() is called. Throws UserError if
// the variable is no number. REQUIRES: no kernel runs meanwhile.
std::uint64_t order_seed();
void set_order_seed(std::uint64_t seed);

// An order of n things.
class Order {
 public:
  Order() = default;
  // REQUIRES: n and step have no common divisor but 1.
  Order(std::size_t n, std::size_t first, std::size_t step) : n_(n), first_(first), step_(step) {}

  // Returns the i-th thing, a number below n.
  std::size_t operator[](std::size_t i) const { return (first_ + i * step_) % n_; }

 private:
  std::size_t n_ = 1, first_ = 0, step_ = 1;
};

// The orders of one launch.
class Shuffle {
 public:
  // Takes the process's seed, and the number of launches before.
  Shuffle();

  bool is_on() const { return seed_ != 0; }
  // Returns another order of n things each time. REQUIRES: n > 0.
  Order next(std::size_t n);

 private:
  // Returns a random number below `bound`.
  std::size_t below(std::size_t bound);

  std::uint64_t seed_, launch_ = 0, num_draws_ = 0;
};

}  // namespace ladder::emulator
