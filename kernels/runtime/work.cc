#include "kernels/runtime/work.h"

#include <exception>

namespace ladder {

Work& Work::operator=(Work&& other) noexcept {
  if (state_) std::terminate();  // it is a bug not to wait for a started operation
  state_ = std::move(other.state_);
  return *this;
}

Work::~Work() {
  // It is a bug not to wait, unless an exception unwinds the stack: then the program is about to
  // end.
  if (state_ && std::uncaught_exceptions() == 0) std::terminate();
}

void Work::wait(Stream& stream) {
  if (!state_) return;
  const std::shared_ptr<State> state = std::exchange(state_, nullptr);
  state->wait(stream);
}

}  // namespace ladder
