// How long a stage's work takes on its device.
#pragma once

#include <cstddef>
#include <deque>

#include "common/pipeline/report.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// StageTimer measures parts of a stage's steps by events on its stream. The host's clock would not
// do: on a GPU it only tells how long the calls took, which return long before the work is over.
class StageTimer {
 public:
  // `stream` is the one on which the stage computes. It must outlive this object.
  explicit StageTimer(Stream& stream) : stream_(stream) {}

  // Begins a step. First it adds up what the step before has taken, for which the host waits if
  // that step has not ended yet.
  void begin_step() {
    add_up();
    ++num_steps_;
  }
  // Calls body(). The part's time begins when the stream reaches the work that body() queues, and
  // ends when that work is done. Parts may be nested. Asynchronous.
  template <class Body>
  void time(double StageTimes::*part, const Body& body) {
    if (num_spans_ == spans_.size()) spans_.emplace_back();
    Span& span = spans_[num_spans_++];
    span.part = part;
    span.begin.record(stream_);
    body();
    span.end.record(stream_);
  }
  // Returns the sums over all steps but the first, which is slower since it touches new memory. The
  // host waits for the last step.
  const StageTimes& times() {
    add_up();
    return times_;
  }

 private:
  struct Span {
    Event begin, end;
    double StageTimes::*part = nullptr;
  };
  void add_up();

  Stream& stream_;
  std::deque<Span> spans_;  // of a step; their events are used again in the next one
  size_t num_spans_ = 0, num_steps_ = 0;
  StageTimes times_;
};

}  // namespace ladder
