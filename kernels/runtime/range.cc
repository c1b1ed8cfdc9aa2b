#include "kernels/runtime/range.h"

#include <nvtx3/nvToolsExt.h>

namespace ladder {

Range::Range(std::string_view what, std::string_view of) {
  size_ = what.copy(text_.data(), text_.size() - 1);
  if (!of.empty() && size_ + 2 < text_.size()) {
    text_[size_++] = ' ';
    size_ += of.copy(text_.data() + size_, text_.size() - 1 - size_);
  }
  text_[size_] = '\0';
  nvtxRangePushA(text_.data());
}

Range::Range(const Stream& stream, std::string_view what, std::string_view of) : Range(what, of) {
  observer_ = stream.observer();
  if (observer_ != nullptr) begin_ = Clock::now();  // when the host queues, not when a device runs
}

Range Range::pass(const Stream& stream, std::string_view what) {
  if (StreamObserver* const observer = stream.observer()) observer->on_pass();
  return Range(what);
}

Range::~Range() {
  nvtxRangePop();
  if (observer_ == nullptr) return;
  observer_->on_range({text_.data(), size_}, begin_, Clock::now());
}

}  // namespace ladder
