#include "kernels/runtime/work.h"

#include <cstdio>
#include <exception>

namespace ladder {
namespace {

// It is a bug not to wait for a started operation.
[[noreturn]] void end_unwaited(const char* how) {
  std::fprintf(stderr, "error: a started operation (Work) was %s before it was waited for\n", how);
  std::terminate();
}

}  // namespace

Work& Work::operator=(Work&& other) noexcept {
  if (state_) end_unwaited("overwritten");
  state_ = std::move(other.state_);
  return *this;
}

Work::~Work() {
  // While an exception unwinds the stack the program is about to end.
  if (state_ && std::uncaught_exceptions() == 0) end_unwaited("destroyed");
}

void Work::wait(Stream& stream) {
  if (!state_) return;
  const std::shared_ptr<State> state = std::exchange(state_, nullptr);
  state->wait(stream);
}

}  // namespace ladder
