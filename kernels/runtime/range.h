// Named ranges in timelines: our own, and those of NVIDIA's profilers (nsys profile), by NVTX.
#pragma once

#include <array>
#include <string_view>

#include "kernels/runtime/clock.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// While a Range exists, timelines show that this thread works on `what`, followed by a blank and
// `of` if that is given. Ranges nest. NVIDIA's profiler also shows what the thread queued on a
// device in the meantime. A range costs a few nanoseconds if no profiler is listening.
class Range {
 public:
  explicit Range(std::string_view what, std::string_view of = {});
  // Does the same for work that is queued on `stream`, and tells the stream's observer when it
  // ends.
  Range(const Stream& stream, std::string_view what, std::string_view of = {});
  // Returns the range of a pass over a micro-batch, its forward or its backward, and first tells
  // the stream's observer. The ranges in it are those of the model's units.
  static Range pass(const Stream& stream, std::string_view what);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  std::array<char, 64> text_;  // longer names are cut, because a range must not allocate
  size_t size_ = 0;
  StreamObserver* observer_ = nullptr;
  Time begin_;
};

}  // namespace ladder
