// The work that streams have been given, and when it runs.
//
// A GPU may run two pieces of work of different streams in either order, unless an event orders
// them or the host waited in between. A program that forgot the event may work by luck. With the
// order `deferred` the emulator finds such programs:
// - A call only notes its work. The work runs when the host waits for it, and then nothing else
//   runs but what it depends on: earlier work of its stream, and what that waits for by events.
// - So that work also comes too early, one of the streams is the early one for a while: it runs its
//   work at once. Fixed random numbers choose it whenever the host waits; half of the time there is
//   none.
// Take two pieces of work, A and B, that are not ordered. A runs first if its stream is the early
// one and B's is not, and B in the opposite case. So the order that breaks the program comes up,
// and it does in every run in the same way, if one thread makes all calls.
//
// With the order `interleaved` streams run side by side. At each call of the host some work runs:
// each piece is the next one of a stream that is drawn at random among those that may go on. Now
// and then a stream falls asleep, for one call or for hundreds; it wakes up if somebody waits for
// it. The seed of order.h decides, so another seed is another run.
//
// With the order `immediate`, the default, work runs within the call, which is easier to debug.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "kernels/emulator/host_api.h"
#include "kernels/emulator/work_order.h"

namespace ladder::emulator {

enum class StreamOrder { immediate, deferred, interleaved };

// Returns the order of this process. The environment variable LADDER_EMULATOR_STREAMS (immediate,
// deferred or interleaved) decides until set_stream_order() is called, which first runs everything.
// Both throw UserError if the variable has another value.
StreamOrder stream_order();
void set_stream_order(StreamOrder order);

// A mark in a stream: after the first `count` pieces of work that it was given. The stream exists
// until these have run, even after cudaStreamDestroy.
struct StreamMark {
  std::shared_ptr<CUstream_st> stream;
  size_t count = 0;
  WorkClock clock = {};  // what comes before the mark
  WorkId work = 0;       // the last piece of work before it, if give() has made the mark
};

// All following functions are thread-safe: one piece of work runs at a time, in the thread that
// forces it to run. That call throws what the work throws; all other work that has not run is then
// dropped, as on a GPU that has failed. REQUIRES: every stream is_stream().

// A range of device memory. It is empty if `bytes` is 0.
struct Range {
  const void* begin = nullptr;
  size_t bytes = 0;
};
bool overlap(const Range& a, const Range& b);

// Gives the stream work to run. Returns the mark after it. If the caller knows it, `writes` is all
// the device memory that the work writes.
StreamMark give(cudaStream_t stream, std::function<void()> work, std::optional<Range> writes = {});
// Makes the work that the stream is given from now on run after the mark.
void give_wait(cudaStream_t stream, const StreamMark& mark);
// Returns the mark after all work that the stream has been given so far.
StreamMark mark_of(cudaStream_t stream);

bool has_passed(const StreamMark& mark);
// Says that the host knows that the stream has passed the mark.
void host_has_seen(const StreamMark& mark);
// Runs the work that must run before the stream has passed the mark. It is how the host waits.
void run_to(const StreamMark& mark);
// Runs the work that must run before `read` holds what the stream would find there. Work that is
// known to write elsewhere need not run, but the work that it waits for by events must.
void run_for(cudaStream_t stream, const Range& read);
// Runs one piece of work towards the mark. So a host that asks again and again whether the stream
// has passed the mark gets the answer yes in the end.
void run_towards(const StreamMark& mark);
// Runs everything.
void run_all_streams();

cudaStream_t make_stream(bool waits_for_default_stream);
// Destroys a stream. Returns false if it is not a stream. Its work still runs when something waits
// for it.
bool destroy_stream(cudaStream_t stream);

}  // namespace ladder::emulator
