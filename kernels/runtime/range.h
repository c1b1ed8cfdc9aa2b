// Named ranges in timelines: those of NVIDIA's profilers (nsys profile), by NVTX, and our own.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <array>
#include <string_view>

#include "kernels/runtime/clock.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// From here to its end this thread works on `what` (and `of` it, after a blank); ranges nest. The
// profiler also finds what the thread meanwhile queued on a device. Costs a few nanoseconds while
// nobody listens.
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
  // The same, of work that is queued on `stream`: its observer is told, too.
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
  std::array<char, 64> text_;  // longer names are cut: this must not allocate
  size_t size_ = 0;
  StreamObserver* observer_ = nullptr;
  Time begin_;
};

}  // namespace ladder
