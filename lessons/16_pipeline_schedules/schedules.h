// The order of work in a pipeline: lesson 08's lists, and four with a smaller bubble: interleaved,
// ZB-H1, ZB-H2 and ZB-V.
// Letters: p stages, m micro-batches, v chunks on a stage.
#pragma once

#include <cstddef>
#include <string_view>

#include "common/schedule/placement.h"
#include "common/schedule/schedule.h"

namespace ladder {

// naive, gpipe, one_f_one_b ("1f1b")
//               Lesson 08's. The others are compared with 1F1B.
// interleaved   1F1B with v chunks on each stage, looped: the last stage sends on to the first. A
//               micro-batch comes to a stage v times, each time for an v-th of its work, so the
//               bubble is an v-th. It needs v times as many messages.       [Narayanan21 2.2]
// zb_h1         1F1B with backward in two halves. The stage before waits for the first half only,
//               and the second half fills what is left of the bubble.       [Qi23 ZB-H1]
// zb_h2         ZB-H1 with twice as many forwards ahead, for nearly twice the memory. No stage waits
//               between its first work and its last one, but each begins and ends a forward later
//               than the stage before. So it is no faster than ZB-H1 if all stages end a step
//               together and all times are equal. It is, if messages take long, or if a half for
//               the input takes longer than one for the weights.             [Qi23 ZB-H2]
// zb_v          Both: two chunks placed in a V, so that a stage which begins early also ends early,
//               and halves.                                                  [Qi24 V-ZB]
enum class Order { naive, gpipe, one_f_one_b, interleaved, zb_h1, zb_h2, zb_v };
inline constexpr Order kOrders[] = {Order::naive,       Order::gpipe, Order::one_f_one_b,
                                    Order::interleaved, Order::zb_h1, Order::zb_h2,
                                    Order::zb_v};
std::string_view name_of(Order order);
// Returns whether backward runs in two halves.
inline bool splits_backward(Order order) { return order >= Order::zb_h1; }

// Returns where the chunks are. `num_chunks` counts for interleaved alone; ZB-V has two, the others
// one.
ChunkPlacement placement_of(Order order, size_t num_stages, size_t num_chunks);

// Returns how many micro-batches stage s holds at a time, where each of its chunks counts: the
// buffers it needs.
//   naive        1
//   gpipe        m
//   1f1b         min(m, p - s)
//   interleaved  min(m v, 2 (p - s - 1) + (v - 1) p + 1)
//   zb-h1        min(m, p)
//   zb-h2        min(m, 2 p - 1)
//   zb-v         min(2 m, 2 p), or fewer if m < 2 p - 1
size_t max_in_flight(Order order, const ChunkPlacement& placement, size_t stage,
                     size_t num_micro_batches);

// Returns how long a step takes if forward and both halves of backward take 1 in each of the p v
// parts, and messages nothing.
//   naive        3 m p
//   gpipe, 1f1b  3 m + 3 (p - 1)
//   interleaved  3 m v + 3 (p - 1)
//   zb-h1        3 m + p - 1, and p - m more if there are fewer micro-batches than stages
//   zb-h2        3 m + p - 1, and p - 1 - floor(m / 2) more if that is positive
//   zb-v         6 m + p - 1, or 4 m + 4 p - 2 if that is more
// A stage works 3 m v of it; the rest is the bubble.
size_t unit_time(Order order, const ChunkPlacement& placement, size_t num_micro_batches);

// Returns what every stage does in a step, its work alone (common/schedule/build.h). For each
// chunk, forwards, backwards and halves of backward come in the order of the micro-batches. So
// gradients are added up in 1F1B's order. REQUIRES: the placement is the order's; for interleaved p
// divides m.
Schedule make_work(Order order, const ChunkPlacement& placement, size_t num_micro_batches);

}  // namespace ladder
