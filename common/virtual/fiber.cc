#include "common/virtual/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr size_t kStackBytes = size_t{1} << 20;
constexpr size_t kGuardBytes = size_t{4} << 10;  // an overflow ends the program here

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  stack_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(stack_ != MAP_FAILED, "a rank's stack: the system has no memory for it");
  mprotect(stack_, kGuardBytes, PROT_NONE);
  check(getcontext(&own_) == 0, "getcontext failed");
  own_.uc_stack.ss_sp = stack_;
  own_.uc_stack.ss_size = kStackBytes;
  own_.uc_link = &caller_;
  // makecontext passes ints, so the pointer travels in two halves.
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

Fiber::~Fiber() { munmap(stack_, kStackBytes); }

void Fiber::enter(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(uintptr_t{high} << 32 | low);  // NOLINT: see above
  try {
    self->body_();
  } catch (...) {
    self->error_ = std::current_exception();
  }
  self->has_ended_ = true;
}

void Fiber::resume() {
  swapcontext(&caller_, &own_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Fiber::pause() { swapcontext(&own_, &caller_); }

}  // namespace ladder
