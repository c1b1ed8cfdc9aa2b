// What ranks communicate: kinds of traffic, and the bytes that each kind takes.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "common/grid/process_grid.h"

namespace ladder {

// What the data of a collective are.
enum class Purpose { gradient, parameter, activation, control };

enum class Collective {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  send,
  recv,
  barrier
};
inline constexpr size_t kNumPurposes = 4, kNumCollectives = 9;

std::string_view name_of(Purpose purpose);
std::string_view name_of(Collective collective);

struct TrafficKey {
  Purpose purpose;
  Collective collective;
  Axis axis = Axis::world;
  auto operator<=>(const TrafficKey&) const = default;
};
// "tensor activation all_reduce"; between all ranks "gradient all_reduce".
std::string name_of(const TrafficKey& key, char separator = ' ');

// Bytes that one of `size` ranks puts on the wire for a payload of `bytes` bytes, each rank
// equally:
//   all_reduce 2 (N-1)/N; reduce_scatter, all_gather, all_to_all (N-1)/N; broadcast, reduce, send
//   1; recv and barrier 0.
// The payload is the full vector: of reduce_scatter what goes in, of all_gather what comes out.
// [nccl-tests, doc/PERFORMANCE.md]
double wire_bytes(Collective collective, size_t size, size_t bytes);
// Bytes that all of the `size` ranks move together for that payload, however it is shared out among
// them: what the parts of the collective cannot be moved with less of. N times wire_bytes, but for
// broadcast and reduce, where one rank already has what it needs:
//   all_reduce 2 (N-1); reduce_scatter, all_gather, all_to_all, broadcast, reduce N-1; send 1
size_t group_bytes(Collective collective, size_t size, size_t bytes);

struct Traffic {
  size_t calls = 0;
  size_t payload_bytes = 0;
  double busy_seconds = 0;     // that operations took, wherever they ran
  double exposed_seconds = 0;  // of which the caller waited
  // Bytes that this rank has moved, counted where they move: read from a peer's memory or written
  // there, or sent in a message.
  size_t moved_bytes = 0;
  bool by_formula = false;  // moved_bytes are wire_bytes: another library has moved the data

  Traffic& operator+=(const Traffic& more);
  // The same communicated n times, as a prediction has it.
  Traffic times(size_t n) const { return {.calls = n * calls, .payload_bytes = n * payload_bytes}; }
  // Whether the same was communicated, however long it took.
  friend bool operator==(const Traffic& a, const Traffic& b) {
    return a.calls == b.calls && a.payload_bytes == b.payload_bytes;
  }
};

// What was or will be communicated.
using TrafficEntries = std::map<TrafficKey, Traffic>;

}  // namespace ladder
