#include "kernels/runtime/work.h"

#include <exception>

namespace ladder {

Work& Work::operator=(Work&& other) noexcept {
  if (state_) std::terminate();  // a started operation that nobody waited for
  state_ = std::move(other.state_);
  return *this;
}

Work::~Work() {
  // While an exception unwinds the stack the program is about to end; else it is a bug.
  if (state_ && std::uncaught_exceptions() == 0) std::terminate();
}

void Work::wait(Stream& stream) {
  if (!state_) return;
  const std::shared_ptr<State> state = std::exchange(state_, nullptr);
  state->wait(stream);
}

}  // namespace ladder
