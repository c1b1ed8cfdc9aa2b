// What a test's program reads and allocates.
#pragma once

#include <cstddef>

namespace ladder {

// Since it was last set: the bytes read by pread(), and the largest piece of memory asked for by
// new.
struct Watched {
  size_t bytes_read = 0, largest_allocation = 0;
};
extern Watched watched;

}  // namespace ladder
