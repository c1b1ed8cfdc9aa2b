// What a test tries: every case of its loops, or some of them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <random>

namespace ladder::testing {

// Draws the cases that are tried: one in `one_in` on average, or all with `tools/test
// --exhaustive`, which sets LADDER_EXHAUSTIVE. The draws follow from the seed alone, so that every
// rank and every run has the same.
class Sample {
 public:
  explicit Sample(size_t one_in, unsigned seed = 1) : one_in_(one_in), random_(seed) {}
  // Returns whether the next case is tried.
  bool takes() { return all_ || random_() % one_in_ == 0; }

 private:
  bool all_ = std::getenv("LADDER_EXHAUSTIVE") != nullptr;
  size_t one_in_;
  std::mt19937 random_;
};

}  // namespace ladder::testing
