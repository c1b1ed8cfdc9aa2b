// A timeline of a run: what each rank computed and communicated when.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "common/comm/communicator.h"
#include "common/io/file.h"
#include "common/model/hooks.h"

namespace ladder {

// One rank's spans of computation and communication. Thread-safe.
class Trace final : public StreamObserver {
 public:
  enum class Lane { compute, communication };
  using Time = std::chrono::steady_clock::time_point;

  // Time 0 is now. Ranks that make it right after a barrier share it.
  Trace() : begin_(std::chrono::steady_clock::now()) {}

  void add(Lane lane, std::string name, Time from, Time to);
  // Records every range of work on the stream from now on: each unit in each pass, updates. The
  // trace must outlive it.
  void observe(Stream& stream) { stream.set_observer(this); }
  void on_range(std::string_view name, Time begin, Time end) override;
  // Records every operation of the communicator from now on. The trace must outlive it.
  void observe(Communicator& communicator);

  // The spans as elements of a Chrome trace, joined by commas: process = rank, thread = lane, times
  // in microseconds. Operations that ran at the same time, on several communicators, have a lane
  // each. [Trace Event Format]
  std::string json(size_t rank) const;

 private:
  struct Span {
    Lane lane;
    std::string name;
    Time from, to;
  };
  // The lane of each: 0 for computation, from 1 on the first whose operation before has ended.
  // REQUIRES: in the order of their beginnings.
  static std::vector<size_t> lanes_of(const std::vector<Span>& spans);

  Time begin_;
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

// Collects the spans of all ranks on rank 0 and writes them there to `file`, as JSON that Perfetto
// and chrome://tracing open. Collective. `file`: null on the other ranks. Throws Error when the
// disk is full.
void write_trace(const Trace& trace, PartialFile* file, Communicator& world);

}  // namespace ladder
