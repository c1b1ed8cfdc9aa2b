// Traffic: what ranks communicate, and how many bytes each operation takes.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/grid/process_grid.h"

namespace ladder {

// The kind of data that an operation moves. An update is what an optimizer makes of gradients
// before it changes parameters. Control is everything that is not part of a training step's
// formula, such as losses and norms.
enum class Purpose { gradient, parameter, activation, update, control };

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
inline constexpr size_t kNumPurposes = 5, kNumCollectives = 9;

std::string_view name_of(Purpose purpose);
std::string_view name_of(Collective collective);

// Traffic is counted by these three.
struct TrafficKey {
  Purpose purpose;
  Collective collective;
  Axis axis = Axis::world;
  auto operator<=>(const TrafficKey&) const = default;
};
// Names a key, as in "tensor activation all_reduce", or "gradient all_reduce" between all ranks.
std::string name_of(const TrafficKey& key, char separator = ' ');

// Returns the bytes that one of N = `size` ranks puts on the wire for a payload of `bytes` bytes,
// if all ranks put equally many. It is the payload times
//   2 (N-1)/N   all_reduce
//   (N-1)/N     reduce_scatter, all_gather, all_to_all
//   1           broadcast, reduce, send
//   0           recv, barrier
// The payload is the full vector: the input of a reduce_scatter, the output of an all_gather.
// [nccl-tests, doc/PERFORMANCE.md]
double wire_bytes(Collective collective, size_t size, size_t bytes);
// Returns the fewest bytes that all N ranks together must move for that payload, however they
// divide the work. It is N times wire_bytes, except for broadcast and reduce, where one rank has
// what it needs from the beginning. It is the payload times
//   2 (N-1)   all_reduce
//   N-1       reduce_scatter, all_gather, all_to_all, broadcast, reduce
//   1         send
size_t group_bytes(Collective collective, size_t size, size_t bytes);

// Returns the bytes that leave machines for others when the ranks of a group together move that
// payload, if all of them give registered memory. `machine_of` has the machine of each rank. Each
// machine first sums its own ranks, and one message brings what all of them need; only an
// all_to_all has nothing to sum or to share. For M machines it is the payload times
//   2 (M-1)        all_reduce
//   M-1            reduce_scatter, all_gather, broadcast, reduce
//   pairs / N      all_to_all, with the pairs (from, to) of ranks on two machines
//   1              send, whose group has the two ranks between which it goes
size_t bytes_between(Collective collective, const std::vector<size_t>& machine_of, size_t bytes);

// Bytes that a rank has moved: read from a peer's memory, written there, or sent in a message. They
// are counted where they move.
struct Moved {
  size_t bytes = 0;
  size_t between = 0;  // those of them that were sent to another machine
  Moved& operator+=(const Moved& more) {
    bytes += more.bytes;
    between += more.between;
    return *this;
  }
  friend bool operator==(const Moved&, const Moved&) = default;
};

// How much was, or will be, communicated.
struct Traffic {
  size_t calls = 0;
  size_t payload_bytes = 0;
  // Of an all_to_all with a count for each pair: the bytes that all ranks of the group together
  // send to others; with at_most, what they have to send, to themselves too. Otherwise 0.
  size_t group_sent_bytes = 0;
  double busy_seconds = 0;     // the time that operations took, wherever they ran
  double exposed_seconds = 0;  // the part of it for which the caller waited
  Moved moved = {};
  bool by_formula = false;  // true: moved.bytes are wire_bytes, since another library moved them
  bool encoded = false;     // true: an all_reduce that was an all_to_all and an all_gather
  // True for a prediction of an all_to_all whose bytes depend on the data: a rank has at most so
  // many to send, and it may have to send all of them to other ranks.
  bool at_most = false;

  Traffic& operator+=(const Traffic& more);
  // Returns a prediction of the same calls made n times.
  Traffic times(size_t n) const {
    return {.calls = n * calls,
            .payload_bytes = n * payload_bytes,
            .group_sent_bytes = n * group_sent_bytes,
            .at_most = at_most};
  }
  // Compares calls and payload, not times.
  friend bool operator==(const Traffic& a, const Traffic& b) {
    return a.calls == b.calls && a.payload_bytes == b.payload_bytes;
  }
};

// Return wire_bytes() and group_bytes() of a prediction. If ranks give unequally many bytes, the
// first is the mean over the ranks.
double wire_bytes(Collective collective, size_t size, const Traffic& predicted);
size_t group_bytes(Collective collective, size_t size, const Traffic& predicted);

// All that was, or will be, communicated.
using TrafficEntries = std::map<TrafficKey, Traffic>;

}  // namespace ladder
