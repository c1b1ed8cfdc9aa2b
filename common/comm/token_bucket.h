// A network that is slowed down on purpose.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>

#include "kernels/runtime/clock.h"

namespace ladder {

// A TokenBucket lets a rank send at most so many bytes a second. Messages leave one after the
// other, each when its last byte has left; so the receiver has it as late as from a real network of
// that bandwidth. Time in which nothing was sent is lost, except for 1 ms: a thread that wakes up
// late may catch up with so much. It is thread-safe.
class TokenBucket {
 public:
  // REQUIRES: bytes_per_second > 0.
  explicit TokenBucket(double bytes_per_second) : seconds_per_byte_(1 / bytes_per_second) {}

  // Returns when a message of so many bytes has left; until then the calling thread sleeps. Throws
  // an Error once `given_up` is set.
  void send(size_t bytes, const std::atomic<bool>& given_up);

 private:
  double seconds_per_byte_;
  std::mutex mutex_;
  Time free_;  // when the last message has left
};

}  // namespace ladder
