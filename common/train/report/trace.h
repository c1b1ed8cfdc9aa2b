// The timeline of a run: what each rank computed and communicated, and when.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "common/comm/communicator.h"
#include "common/io/file.h"
#include "common/model/hooks.h"
#include "kernels/runtime/clock.h"

namespace ladder {

// Trace records one rank's spans of computation and communication. It is thread-safe.
class Trace final : public StreamObserver {
 public:
  enum class Lane { compute, communication };

  // A span takes about 130 bytes in the file, so a rank takes at most about 13 MB there.
  static constexpr size_t kMaxSpans = 100'000;

  // Time 0 of the trace is now, so ranks should construct it right after a barrier. Only the first
  // `max_spans` spans are kept, so that a long run does not fill the memory.
  explicit Trace(size_t max_spans = kMaxSpans) : max_spans_(max_spans), begin_(Clock::now()) {}

  void add(Lane lane, std::string name, Time from, Time to);
  // Records every range of work on the stream from now on: each unit in each pass, updates. The
  // trace must outlive it.
  void observe(Stream& stream) { stream.set_observer(this); }
  void on_range(std::string_view name, Time begin, Time end) override;
  // Records every operation of the communicator from now on. The trace must outlive it.
  void observe(Communicator& communicator);

  // Returns the spans as elements of a Chrome trace, joined by commas. A process is a rank, a
  // thread is a row of spans, times are in microseconds. In a row of computation spans nest, in one
  // of communication they follow each other; what ran at the same time gets another row. Perfetto
  // drops spans that overlap otherwise, and takes a thread of number 0, or of a process's number,
  // for a process's main thread: threads have numbers of their own in the whole file. If spans were
  // left out, the process has a label that says so. [Trace Event Format]
  std::string json(size_t rank, size_t num_ranks) const;
  // Returns how many spans were left out because they came after the first max_spans.
  size_t num_left_out() const;

 private:
  struct Span {
    Lane lane;
    std::string name;
    Time from, to;
  };
  // A row of spans that readers show as one line.
  struct Row {
    Lane lane;
    std::string name;
    std::vector<Time> open = {};  // the ends of the spans that the next one may lie in
  };
  // Returns the row of each span, and appends to `rows` where they do not do. REQUIRES: the spans
  // are in the order of their beginnings, enclosing ones first.
  static std::vector<size_t> rows_of(const std::vector<Span>& spans, std::vector<Row>& rows);

  size_t max_spans_;
  Time begin_;
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
  size_t num_left_out_ = 0;
};

// Writes a Chrome trace: the events of one rank after the other.
class TraceWriter {
 public:
  explicit TraceWriter(PartialFile& file) : file_(file) {}
  // Adds what Trace::json() has returned.
  void add(const std::string& events);
  // Ends the file and commits it. REQUIRES: add() has been called.
  void finish();

 private:
  PartialFile& file_;
  const char* before_ = "{\"traceEvents\": [\n";
};

// Writes the spans of all ranks, rank after rank, as JSON that Perfetto and chrome://tracing open.
// Rank 0 gives `file`; the others give null. Returns how many spans of all ranks were left out.
// Throws Error if the disk is full. Collective.
size_t write_trace(const Trace& trace, PartialFile* file, Communicator& world);

}  // namespace ladder
