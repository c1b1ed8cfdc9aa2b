// What a test tries: every case of its loops, or some of them; and how many cases it draws.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <random>

namespace ladder::testing {

// Draws the cases that are tried: one of every `one_in` consecutive cases, or all with `tools/test
// --exhaustive`, which sets LADDER_EXHAUSTIVE. The draws follow from the seed alone, so that every
// rank and every run has the same.
class Sample {
 public:
  explicit Sample(size_t one_in, size_t seed = 1)
      : one_in_(one_in), random_(static_cast<std::mt19937::result_type>(seed)) {}
  // Returns whether the next case is tried.
  bool takes() {
    if (all_) return true;
    if (next_ == 0) drawn_ = random_() % one_in_;
    const bool taken = next_ == drawn_;
    next_ = (next_ + 1) % one_in_;
    return taken;
  }

 private:
  bool all_ = std::getenv("LADDER_EXHAUSTIVE") != nullptr;
  size_t one_in_, next_ = 0, drawn_ = 0;
  std::mt19937 random_;
};

// Calls body(number) for each case that a test draws at random from its number: `usual` cases, and
// ten times as many with --exhaustive. LADDER_CASES=COUNT or LADDER_CASES=FIRST-LAST in the
// environment, for one by hand, says which instead.
template <class Body>
void for_random_cases(size_t usual, Body body) {
  size_t first = 1, last = std::getenv("LADDER_EXHAUSTIVE") != nullptr ? 10 * usual : usual;
  if (const char* const asked = std::getenv("LADDER_CASES")) {
    char* end = nullptr;
    last = std::strtoul(asked, &end, 10);
    if (*end == '-') {
      first = last;
      last = std::strtoul(end + 1, nullptr, 10);
    }
  }
  for (size_t number = first; number <= last; ++number) body(number);
}

}  // namespace ladder::testing
