// A timeline of a run: what each rank computed and communicated when.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "common/comm/communicator.h"
#include "common/io/file.h"
#include "common/model/hooks.h"
#include "kernels/runtime/clock.h"

namespace ladder {

// One rank's spans of computation and communication. Thread-safe.
class Trace final : public StreamObserver {
 public:
  enum class Lane { compute, communication };

  // Some 130 bytes each in the file: a rank has about 13 MB there at most.
  static constexpr size_t kMaxSpans = 100'000;

  // Time 0 is now. Ranks that make it right after a barrier share it. Only the first `max_spans`
  // are kept, so that a long run does not fill the memory.
  explicit Trace(size_t max_spans = kMaxSpans) : max_spans_(max_spans), begin_(Clock::now()) {}

  void add(Lane lane, std::string name, Time from, Time to);
  // Records every range of work on the stream from now on: each unit in each pass, updates. The
  // trace must outlive it.
  void observe(Stream& stream) { stream.set_observer(this); }
  void on_range(std::string_view name, Time begin, Time end) override;
  // Records every operation of the communicator from now on. The trace must outlive it.
  void observe(Communicator& communicator);

  // The spans as elements of a Chrome trace, joined by commas: process = rank, thread = lane, times
  // in microseconds. Operations that ran at the same time, on several communicators, have a lane
  // each. Where spans are left out, the process has a label that says so. [Trace Event Format]
  std::string json(size_t rank) const;
  // Spans that came after the first max_spans.
  size_t num_left_out() const;

 private:
  struct Span {
    Lane lane;
    std::string name;
    Time from, to;
  };
  // The lane of each: 0 for computation, from 1 on the first whose operation before has ended.
  // REQUIRES: in the order of their beginnings.
  static std::vector<size_t> lanes_of(const std::vector<Span>& spans);

  size_t max_spans_;
  Time begin_;
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
  size_t num_left_out_ = 0;
};

// Writes the spans of all ranks to `file`, rank after rank, as JSON that Perfetto and
// chrome://tracing open. Collective. `file`: on rank 0, null elsewhere. Returns how many spans of
// all ranks were left out. Throws Error when the disk is full.
size_t write_trace(const Trace& trace, PartialFile* file, Communicator& world);

}  // namespace ladder
