// A stack that code can run on and leave in the middle, to go on later: one CUDA thread.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace ladder::emulator {

class Fiber {
 public:
  // The stack that the caller runs on.
  Fiber() = default;
  // Runs `body` on the `bytes` above `stack` when first switched to. `body` must never return.
  Fiber(void* stack, size_t bytes, void (*body)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Leaves this fiber, the running one, for `next`; returns when somebody switches back.
  void switch_to(Fiber& next);

 private:
  static void enter(boost::context::detail::transfer_t from);
  void arrive(boost::context::detail::transfer_t from);

  boost::context::detail::fcontext_t context_ = nullptr;  // where it goes on, while it is left
  void (*body_)() = nullptr;
  // For the sanitizers, which must be told of every change of stacks.
  const void* stack_ = nullptr;
  size_t bytes_ = 0;
  void* fake_stack_ = nullptr;
  void* thread_state_ = nullptr;
};

}  // namespace ladder::emulator
