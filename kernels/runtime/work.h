// Started operations.
#pragma once

#include <memory>
#include <utility>

#include "kernels/runtime/stream.h"

namespace ladder {

// A started operation. Must be waited for before it is destroyed, and must not outlive its
// communicator. Move-only.
class [[nodiscard]] Work {
 public:
  // The operation, as whoever runs it knows it.
  class State {
   public:
    virtual ~State() = default;
    virtual void wait(Stream& stream) = 0;
  };

  Work() = default;  // nothing to wait for
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Work(Work&&) = default;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  // What is queued on `stream` from now on sees the result. On device memory NCCL's operations are
  // waited for by the stream alone, and the call returns at once; all others by the host.
  // Throws what the operation threw.
  void wait(Stream& stream);

 private:
  std::shared_ptr<State> state_;
};

}  // namespace ladder
