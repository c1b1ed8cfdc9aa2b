// A fiber: a stack on which code runs, and which it can leave in the middle and go on later. CUDA's
// threads run on fibers.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace ladder::emulator {

class Fiber {
 public:
  // Makes the fiber of the stack on which the caller runs.
  Fiber() = default;
  // Makes a fiber that runs `body` on the `bytes` bytes above `stack` when it is first switched to.
  // `body` must never return.
  Fiber(void* stack, size_t bytes, void (*body)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Leaves this fiber, which must be the running one, for `next`. Returns when a fiber switches
  // back.
  void switch_to(Fiber& next);

 private:
  static void enter(boost::context::detail::transfer_t from);
  void arrive(boost::context::detail::transfer_t from);

  boost::context::detail::fcontext_t context_ = nullptr;  // the place where it will go on
  void (*body_)() = nullptr;
  // These are for the sanitizers, which must be told about every change of stacks.
  const void* stack_ = nullptr;
  size_t bytes_ = 0;
  void* fake_stack_ = nullptr;
  void* thread_state_ = nullptr;
};

}  // namespace ladder::emulator
