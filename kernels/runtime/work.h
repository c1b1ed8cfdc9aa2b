// Work: an operation that has been started and must be waited for.
#pragma once

#include <memory>
#include <utility>

#include "kernels/runtime/stream.h"

namespace ladder {

// A started operation, such as a collective. It must be waited for before it is destroyed, and must
// not outlive its communicator.
class [[nodiscard]] Work {
 public:
  // What wait() calls. Each way to run operations implements it.
  class State {
   public:
    virtual ~State() = default;
    virtual void wait(Stream& stream) = 0;
  };

  Work() = default;  // has nothing to wait for
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Work(Work&&) = default;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  // Makes work that is queued on `stream` from now on see the result. For NCCL's operations on
  // device memory only the stream waits, and the call returns at once. For all other operations the
  // host waits. Throws what the operation threw.
  void wait(Stream& stream);

 private:
  std::shared_ptr<State> state_;
};

}  // namespace ladder
