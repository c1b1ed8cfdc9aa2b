#include "kernels/emulator/fiber.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace ladder::emulator {

namespace context = boost::context::detail;

namespace {
// The fiber that is being switched to. (The one pointer that fcontext passes names the fiber that
// was left.) It is a plain variable, since one kernel runs at a time.
Fiber* arriving = nullptr;
}  // namespace

Fiber::Fiber(void* stack, size_t bytes, void (*body)())
    : context_(context::make_fcontext(static_cast<char*>(stack) + bytes, bytes, &Fiber::enter)),
      body_(body),
      stack_(stack),
      bytes_(bytes) {
#ifdef __SANITIZE_THREAD__
  thread_state_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef __SANITIZE_THREAD__
  if (body_ != nullptr) __tsan_destroy_fiber(thread_state_);
#endif
}

void Fiber::switch_to(Fiber& next) {
  arriving = &next;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_stack_, next.stack_, next.bytes_);
#endif
#ifdef __SANITIZE_THREAD__
  thread_state_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(next.thread_state_, 0);
#endif
  arrive(context::jump_fcontext(next.context_, this));
}

// Runs first on this fiber after a switch. `from` was left.
void Fiber::arrive(context::transfer_t from) {
  Fiber& left = *static_cast<Fiber*>(from.data);
  left.context_ = from.fctx;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack_, &left.stack_, &left.bytes_);
#endif
}

void Fiber::enter(context::transfer_t from) {
  Fiber& self = *arriving;
  self.arrive(from);
  self.body_();
}

}  // namespace ladder::emulator
