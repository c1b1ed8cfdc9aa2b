// An observer of a stream for as long as it lives.
#pragma once

#include <string_view>

#include "kernels/runtime/stream.h"

namespace ladder {

// It passes on what it observes to the stream's observer from before, which the stream has again
// when it ends. REQUIRES: it ends before one that was made earlier, and no Range of the stream is
// open when it is made or ends.
class ScopedObserver : public StreamObserver {
 public:
  explicit ScopedObserver(Stream& stream) : stream_(stream), before_(stream.observer()) {
    stream.set_observer(this);
  }
  ~ScopedObserver() override { stream_.set_observer(before_); }
  ScopedObserver(const ScopedObserver&) = delete;
  ScopedObserver& operator=(const ScopedObserver&) = delete;

  void on_pass() override {
    if (before_ != nullptr) before_->on_pass();
  }
  void on_range(std::string_view name, Time begin, Time end) override {
    if (before_ != nullptr) before_->on_range(name, begin, end);
  }

 protected:
  Stream& stream() { return stream_; }

 private:
  Stream& stream_;
  StreamObserver* before_;
};

}  // namespace ladder
