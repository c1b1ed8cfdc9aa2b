// What streams have been given, and when it runs.
//
// A GPU may run two pieces of work of different streams in either order, unless an event, or a host
// that waited in between, orders them. A program that forgot the event works by luck, so the
// emulator can be told to have none. In the order `deferred`
// - a call only writes down what it asks for. It runs when the host waits for it, and then no more
//   runs than what it depends on: earlier work of its stream, and what that waits for by events;
// - to show what comes too early as well, one of the streams is the early one for a while: it runs
//   what it is given at once. It is drawn by fixed random numbers where the host waits, and half of
//   the time there is none.
// Take two pieces of work, A and B, that are not ordered. A runs first when its stream is the early
// one and B's is not, B the other way round: whichever order breaks the program comes up, and with
// the same numbers in every run, if one thread makes all calls.
//
// In the order `immediate`, the default, everything runs within the call. It is easier to debug.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "kernels/emulator/host_api.h"

namespace ladder::emulator {

enum class StreamOrder { immediate, deferred };

// The order of this process: what the environment variable LADDER_EMULATOR_STREAMS says, immediate
// or deferred, until set_stream_order() says otherwise. The latter first runs everything.
// Both throw UserError where the variable says anything else.
StreamOrder stream_order();
void set_stream_order(StreamOrder order);

// A mark in a stream: behind the first `count` things that it was given. The stream lives on until
// they have run, also after cudaStreamDestroy.
struct StreamMark {
  std::shared_ptr<CUstream_st> stream;
  size_t count = 0;
};

// All that follows is thread-safe: one piece of work runs at a time, in the thread that forces it.
// What a piece of work throws comes out of the call that forced it; everything else that had not
// run yet is then dropped, as on a GPU that has failed.
// REQUIRES of every stream: is_stream().

// Device memory; none, if `bytes` is 0.
struct Range {
  const void* begin = nullptr;
  size_t bytes = 0;
};
bool overlap(const Range& a, const Range& b);

// Gives the stream work to run. Returns the mark behind it. `writes`, where the caller knows it, is
// all the device memory that the work writes.
StreamMark give(cudaStream_t stream, std::function<void()> work, std::optional<Range> writes = {});
// What the stream is given from now on runs behind the mark.
void give_wait(cudaStream_t stream, const StreamMark& mark);
// Behind all that the stream has been given so far.
StreamMark mark_of(cudaStream_t stream);

bool has_passed(const StreamMark& mark);
// Runs what has to run so that the stream has passed the mark: the host waits.
void run_to(const StreamMark& mark);
// Runs what has to run so that `read` holds what the stream would find there. Work that is known to
// write elsewhere may wait, what it waits for by events may not.
void run_for(cudaStream_t stream, const Range& read);
// Runs one thing on the way there. So a host that asks again and again whether a stream has passed
// a mark is told so in the end.
void run_towards(const StreamMark& mark);
// Runs everything.
void run_all_streams();

cudaStream_t make_stream(bool waits_for_default_stream);
// False if it is none. What it was given still runs, when something waits for it.
bool destroy_stream(cudaStream_t stream);

}  // namespace ladder::emulator
