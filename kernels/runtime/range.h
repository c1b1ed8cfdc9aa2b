// Named ranges in timelines: our own, and those of NVIDIA's profilers (nsys profile), by NVTX.
#pragma once

#include <nvtx3/nvToolsExt.h>

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
  explicit Range(std::string_view what, std::string_view of = {}) {
    size_ = what.copy(text_.data(), text_.size() - 1);
    if (!of.empty() && size_ + 2 < text_.size()) {
      text_[size_++] = ' ';
      size_ += of.copy(text_.data() + size_, text_.size() - 1 - size_);
    }
    text_[size_] = '\0';
    nvtxRangePushA(text_.data());
  }
  // Does the same for work that is queued on `stream`, and tells the stream's observer when it
  // ends.
  Range(const Stream& stream, std::string_view what, std::string_view of = {}) : Range(what, of) {
    observer_ = stream.observer();
    if (observer_ != nullptr) begin_ = Clock::now();
  }
  ~Range() {
    nvtxRangePop();
    if (observer_ == nullptr) return;
    observer_->on_range({text_.data(), size_}, begin_, Clock::now());
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  std::array<char, 64> text_;  // longer names are cut, because a range must not allocate
  size_t size_ = 0;
  StreamObserver* observer_ = nullptr;
  Time begin_;
};

}  // namespace ladder
