// The loops of CPU kernels as the last of a million threads comes by: for tests with tensors of
// which only the end can be computed.
#pragma once

namespace ladder::testing {

// While one of these lives OpenMP's parallel regions have `num_threads` threads, of which only the
// last does its share: of a static loop the last num_iterations / num_threads iterations (none,
// where there are fewer iterations than threads), of a dynamic one the last chunk. At all other
// times the caller alone does everything.
class LastThreadOf {
 public:
  explicit LastThreadOf(int num_threads);
  ~LastThreadOf();
  LastThreadOf(const LastThreadOf&) = delete;
  LastThreadOf& operator=(const LastThreadOf&) = delete;
};

}  // namespace ladder::testing
