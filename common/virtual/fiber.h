// Functions that can be interrupted and continued, all in one thread.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <exception>
#include <functional>

namespace ladder {

// A Fiber runs a function on a stack of its own. The stack costs memory only where it is touched.
class Fiber {
 public:
  // Throws an Error if the system has no memory for the stack.
  explicit Fiber(std::function<void()> body);
  // REQUIRES: the fiber has not begun or has ended.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it calls pause() or ends. Throws what it threw. REQUIRES: it has not ended;
  // no fiber is running.
  void resume();
  // Goes back to the caller of resume(). REQUIRES: this fiber is running; no exception is being
  // handled, because C++ keeps one list of caught exceptions for a thread.
  void pause();
  bool has_ended() const { return has_ended_; }

 private:
  static void enter(unsigned high, unsigned low);

  std::function<void()> body_;
  void* stack_ = nullptr;
  ucontext_t own_, caller_;
  std::exception_ptr error_;
  bool has_ended_ = false;
};

}  // namespace ladder
