// Examples: sequences with targets of their own, which the batches of a task are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ladder {

// A sequence. targets[t] is what is learned at tokens[t], or kIgnored (kernels/runtime/target.h).
struct Example {
  std::span<const int32_t> tokens, targets;  // of the same length

  // Returns how many targets count.
  size_t num_counted() const;
};

// A list of examples, in the order in which they were added.
class Examples {
 public:
  // REQUIRES: tokens and targets have the same length, above 0.
  void add(std::span<const int32_t> tokens, std::span<const int32_t> targets);

  size_t size() const { return ends_.size(); }
  Example operator[](size_t index) const;
  size_t num_tokens() const { return tokens_.size(); }  // of all examples

 private:
  std::vector<int32_t> tokens_, targets_;  // of all examples, one after the other
  std::vector<size_t> ends_;
};

}  // namespace ladder
