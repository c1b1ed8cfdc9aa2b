// What a program chooses about the transport between MPI processes.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/comm/staging.h"
#include "common/comm/token_bucket.h"

namespace ladder {

struct MpiOptions {
  // The largest number of elements in one message. Tests have shorter messages.
  size_t segment_elements = kSegmentElements;
  // Calls are always compared between ranks that share memory. If this is set, ranks that do not
  // share memory compare them too, by messages.
  bool check_collectives = false;
  // After this many seconds an Error names the ranks that are late; 0 = wait for ever. Setting it
  // turns on the comparison of check_collectives, so that all ranks know who has come.
  double timeout_seconds = 0;
  // A rank that sleeps in shared memory looks again after this time even if nobody has woken it.
  // Tests make it long, so that a lost wake-up shows.
  double longest_sleep_seconds = 0.01;
  // Slows down the messages of this rank in all groups; null: as fast as they go.
  std::shared_ptr<TokenBucket> network = nullptr;
  // For tests: send() returns only when its recv has begun, even if MPI could buffer the message.
  bool synchronous_sends = false;
  // For tests: the machine of each rank of the world, as if these were several machines. Empty =
  // as it is.
  std::vector<size_t> machine_of = {};
};

}  // namespace ladder
