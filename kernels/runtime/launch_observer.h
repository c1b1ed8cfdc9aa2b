// Who wants to know of each launch on a GPU: see kernel_times.h.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

namespace ladder {

// Both are called in the thread that launches, just before and just after. `name` is the compiler's
// for the kernel, or says which product.
struct LaunchObserver {
  void (*begins)(cudaStream_t stream, std::string_view name);
  void (*ended)(cudaStream_t stream);
};

// Null: nobody.
inline constinit const LaunchObserver* launch_observer = nullptr;

// A launch, from this object's begin to its end.
class ObservedLaunch {
 public:
  ObservedLaunch(cudaStream_t stream, std::string_view name) : stream_(stream) {
    if (launch_observer != nullptr) launch_observer->begins(stream, name);
  }
  ~ObservedLaunch() {
    if (launch_observer != nullptr) launch_observer->ended(stream_);
  }
  ObservedLaunch(const ObservedLaunch&) = delete;
  ObservedLaunch& operator=(const ObservedLaunch&) = delete;

 private:
  cudaStream_t stream_;
};

}  // namespace ladder
