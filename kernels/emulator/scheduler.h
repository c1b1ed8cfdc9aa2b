// How the emulator runs the work of streams: what stands behind streams.h.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/emulator/streams.h"

// A task of a stream: it waits for the marks, or runs the work.
struct Task {
  std::vector<ladder::emulator::StreamMark> after;
  std::function<void()> work = {};
  std::optional<ladder::emulator::Range> writes = {};  // unknown if empty
  ladder::emulator::WorkId id = 0;                     // of the work
  ladder::emulator::WorkClock clock = {};              // what comes before it, and the work itself
};

struct CUstream_st {
  bool waits_for_default;       // false: cudaStreamNonBlocking
  size_t number = 0;            // no other live stream has it
  bool alive = true;            // not destroyed
  std::deque<Task> tasks = {};  // that have not run
  size_t num_run = 0;
  size_t asleep = 0;                       // for so many calls of the host, if interleaved
  ladder::emulator::WorkClock clock = {};  // what comes before the next work

  size_t num_given() const { return num_run + tasks.size(); }
};

namespace ladder::emulator {

using Stream = std::shared_ptr<CUstream_st>;

// Returns what LADDER_EMULATOR_STREAMS says.
StreamOrder order_of_environment();

// The streams of the process, and the order in which they run. One lock protects everything. Work
// runs while it is held, and may take it again.
struct Scheduler {
  StreamOrder order = order_of_environment();
  Stream standard = std::make_shared<CUstream_st>(true);  // the default stream
  std::vector<Stream> streams = {standard};               // alive, or with tasks
  Stream early;                                           // or none
  std::uint64_t num_draws = 0;                            // of the early stream
  std::uint64_t waits_left = 0;                           // of the host, until the next draw
  std::uint64_t num_random = 0;                           // random numbers of interleaved streams
  WorkClock host;                                         // what the host has waited for
  std::vector<std::uint32_t> stream_of = {0};             // by work: the number of its stream
  const WorkClock* running = nullptr;                     // of the running work
  std::recursive_mutex mutex;
};

// All following functions need the lock.
Scheduler& scheduler();

// Returns the stream, or null if it is none.
Stream find(cudaStream_t handle);
// Returns the smallest number that no stream has.
size_t free_number();
// Forgets the streams that were destroyed and have nothing to do.
void forget_finished();
StreamMark mark_after(const Stream& stream);

// Calls body(), which advances streams for the host. If it throws, all work that has not run is
// dropped.
void force(const std::function<void()>& body);
// Runs what must run before the stream has run `count` tasks.
void force(const Stream& stream, size_t count);
void force_all();
// Runs the tasks up to the last one that may write the range, and everything that later ones wait
// for.
void advance_for(CUstream_st& stream, const Range& range);
// Deferred streams: draws the early stream after a wait of the host, and for how many waits it
// stays. Half of the time there is none. Some mistakes show only if work is late for one wait,
// others for hundreds.
void draw_early_stream();
// Gives the stream a task.
void add(const Stream& stream, Task task);
// The default stream and those that are not cudaStreamNonBlocking wait for each other.
void order_with_default(const Stream& stream);

}  // namespace ladder::emulator
