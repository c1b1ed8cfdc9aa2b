// The asynchronous copies of one thread (cp.async), for kernels/cuda/tensor_core.h.
#pragma once

#include <cstddef>
#include <vector>

namespace ladder::emulator {

// Copies are as late as a GPU may make them: until the thread waits for the copy, its destination
// holds undefined values (NaN), so that a kernel that reads too early computes with them.
class AsyncCopies {
 public:
  // Begins to copy `bytes` bytes, or zeros if from is nullptr. Throws an Error if an address is no
  // multiple of `bytes`.
  void add(void* to, const void* from, size_t bytes);
  // Makes a group of all copies since the last call.
  void commit() { ++num_groups_; }
  // Ends all groups but the last `in_flight` ones. `return_address` is where the kernel waits.
  void wait(size_t in_flight, const void* return_address);
  // Forgets all copies. A thread block begins so.
  void clear();

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t bytes, group;
  };
  std::vector<Copy> copies_;  // those that have not ended, in their order
  size_t num_groups_ = 0;
};

}  // namespace ladder::emulator
