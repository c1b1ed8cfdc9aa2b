// The operations of MpiTransport between machines: shared memory on each, messages between them.
// See machines.h for who carries what.
#include <algorithm>
#include <deque>
#include <vector>

#include "common/comm/mpi_segments.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Different ranks write different slices of one buffer, so slices begin at cache lines if they are
// long enough.
constexpr size_t kLine = 16;

// Returns the elements of the largest slices of which `most_slices` fit into `area`.
size_t slice_size(const TensorView& area, size_t most_slices) {
  const size_t most = area.num_elements() / most_slices;
  return most < kLine ? most : most / kLine * kLine;
}

// The staging area of a sum that travels in segments: while the slices of one segment travel, those
// of the next are summed. So it has two parts, unless one segment is enough.
struct Parts {
  // `area` is to hold `most_slices` slices of each segment; `longest` is the length of a whole
  // slice.
  Parts(const TensorView& area, size_t most_slices, size_t longest) : area_(area) {
    const size_t all = slice_size(area, most_slices);
    slice = longest <= all ? all : slice_size(area, 2 * most_slices);
    part_ = longest <= all ? 0 : slice * most_slices;
  }
  // Returns the parts in turns.
  TensorView next() {
    begin_ = part_ - begin_;
    return area_.elements(begin_, {area_.num_elements() - begin_});
  }

  size_t slice;  // the most elements of a slice of a segment

 private:
  TensorView area_;
  size_t part_, begin_ = 0;
};

// Returns the elements of a slice if `count` elements are divided into `parts` slices of at most
// `most` elements.
size_t even_slice(size_t count, size_t parts, size_t most) {
  const size_t each = (count + parts - 1) / parts;
  return std::min(most, (each + kLine - 1) / kLine * kLine);
}

}  // namespace

void MpiTransport::execute_between_machines(Operation& operation) {
  operation.label.is_carried = true;
  if (operation.call.elements == 0) return meet_other_machines(operation);
  switch (operation.call.collective) {
    case Collective::all_reduce:
      return all_reduce_between_machines(operation);
    case Collective::reduce_scatter:
      return reduce_scatter_between_machines(operation);
    case Collective::all_gather:
      return all_gather_between_machines(operation);
    case Collective::broadcast:
      return broadcast_between_machines(operation);
    case Collective::reduce:
      return reduce_between_machines(operation);
    case Collective::all_to_all:
      return all_to_all_between_machines(operation);
    case Collective::send:
    case Collective::recv:
    case Collective::barrier:
      return meet_other_machines(operation);
  }
}

void MpiTransport::meet_other_machines(Operation& operation) {
  if (machines_.local_rank() != 0) return;
  std::vector<Messages::Part> parts;
  for (size_t machine = 0; machine < machines_.size(); ++machine) {
    if (machine != machines_.own()) parts.push_back({machines_.ranks(machine)[0], nullptr, 0});
  }
  messages_.transfer(operation.call, operation.label, parts, parts, operation.moved);
}

void MpiTransport::sum_here(Operation& operation, TensorView out, size_t first) {
  std::vector<ConstTensorView> views;
  for (size_t r : machines_.here()) {
    views.push_back(peer_memory(&Call::in, r, first, out.num_elements()));
  }
  reduce_to_one(out, views, operation.request.reduction);
  operation.moved.bytes += (views.size() - 1) * out.num_bytes();  // read from each peer
}

void MpiTransport::give_here(Operation& operation, const Span& elements) {
  const auto& [first, count] = elements;
  const TensorView own = part(operation.request.out, first, count);
  for (size_t r : machines_.here()) {
    if (r == rank()) continue;
    copy_in_thread(peer_memory(&Call::out, r, first, count), own);
    operation.moved.bytes += own.num_bytes();
  }
}

template <class SliceOf>
std::vector<TensorView> MpiTransport::start_sums(Operation& operation, TensorView own,
                                                 TensorView area, SliceOf slice_of) {
  const ConstTensorView in = operation.request.in;
  size_t used = 0;  // elements of the area
  const auto take = [&](size_t count) {
    used += count;
    return part(area, used - count, count);
  };
  std::vector<ConstTensorView> carried(size(), part(in, 0, 0));  // by owner
  for (size_t r = 0; r < size(); ++r) {
    if (!machines_.carries(rank(), r)) continue;
    const auto [first, count] = slice_of(r);
    carried[r] = part(in, first, count);
    if (machines_.here().size() == 1) continue;
    const TensorView sum = take(count);
    sum_here(operation, sum, first);
    carried[r] = sum;
  }
  std::vector<TensorView> sums;  // of this rank's slice, by machine
  for (size_t machine = 0; machine < machines_.size(); ++machine) {
    sums.push_back(machine == machines_.own() ? own : take(own.num_elements()));
  }
  start_exchange(
      operation, [&](size_t r) { return carried[r]; },
      [&](size_t r) {
        return machines_.carries(r, rank()) ? sums[machines_.machine_of(r)] : part(own, 0, 0);
      });
  sum_here(operation, own, slice_of(rank()).first);
  return sums;
}

void MpiTransport::finish_sums(Operation& operation, const std::vector<TensorView>& sums) {
  finish_exchange(operation);
  const std::vector<ConstTensorView> in(sums.begin(), sums.end());
  reduce_to_one(sums[machines_.own()], in, operation.request.reduction);
}

template <class SliceOf>
void MpiTransport::start_spreading(Operation& operation, SliceOf slice_of) {
  const auto slice = [&](size_t r, bool travels) {
    const auto [first, count] = slice_of(r);
    return part(operation.request.out, first, travels ? count : 0);
  };
  start_exchange(
      operation, [&](size_t r) { return slice(rank(), machines_.carries(r, rank())); },
      [&](size_t r) { return slice(r, machines_.carries(rank(), r)); });
  give_here(operation, slice_of(rank()));
}

template <class SliceOf>
void MpiTransport::finish_spreading(Operation& operation, SliceOf slice_of) {
  finish_exchange(operation);
  for (size_t r = 0; r < size(); ++r) {
    if (machines_.carries(rank(), r)) give_here(operation, slice_of(r));
  }
}

void MpiTransport::all_reduce_between_machines(Operation& operation) {
  const Request& request = operation.request;
  const size_t n = request.out.num_elements();
  Parts parts(staging(request, 2 * machines_.most_slices()), machines_.most_slices(),
              even_slice(n, size(), n));
  // Returns which elements each rank owns of a segment.
  const auto slices = [&](size_t begin, size_t count) {
    const size_t each = even_slice(count, size(), parts.slice);
    return [=](size_t r) {
      const size_t first = std::min(count, r * each);
      return Span{begin + first, std::min(each, count - first)};
    };
  };
  std::deque<std::vector<TensorView>> sums;  // of the segments under way
  for_segments(
      operation, n, parts.slice * size(),
      [&](size_t first, size_t count) {
        const auto slice_of = slices(first, count);
        const Span own = slice_of(rank());
        sums.push_back(
            start_sums(operation, part(request.out, own.first, own.count), parts.next(), slice_of));
      },
      [&](size_t first, size_t count) {
        finish_sums(operation, sums.front());
        sums.pop_front();
        start_spreading(operation, slices(first, count));
      },
      [&](size_t first, size_t count) { finish_spreading(operation, slices(first, count)); });
}

void MpiTransport::reduce_scatter_between_machines(Operation& operation) {
  const Request& request = operation.request;
  const size_t shard = request.out.num_elements();
  Parts parts(staging(request, 2 * machines_.most_slices()), machines_.most_slices(), shard);
  std::deque<std::vector<TensorView>> sums;  // of the segments under way
  for_segments(
      operation, shard, parts.slice,
      [&](size_t first, size_t count) {
        sums.push_back(
            start_sums(operation, part(request.out, first, count), parts.next(), [&](size_t r) {
              return Span{r * shard + first, count};
            }));
      },
      [&](size_t, size_t) {
        finish_sums(operation, sums.front());
        sums.pop_front();
      });
}

void MpiTransport::all_gather_between_machines(Operation& operation) {
  const ConstTensorView shard = operation.request.in;
  const size_t n = shard.num_elements();
  const TensorView own = part(operation.request.out, rank() * n, n);
  if (own.data() != shard.data()) copy_in_thread(own, part(shard, 0, n));
  const auto slices = [n](size_t first, size_t count) {
    return [=](size_t r) { return Span{r * n + first, count}; };
  };
  for_segments(
      operation, n, options_.segment_elements,
      [&](size_t first, size_t count) { start_spreading(operation, slices(first, count)); },
      [&](size_t first, size_t count) { finish_spreading(operation, slices(first, count)); });
}

// The ranks of a machine take turns in receiving a segment, and give it to the others there.
void MpiTransport::broadcast_between_machines(Operation& operation) {
  const Request& request = operation.request;
  const size_t n = request.out.num_elements(), most = options_.segment_elements;
  const bool is_root = rank() == request.peer;
  if (machines_.is_here(request.peer) && !is_root) {
    copy_in_thread(request.out, peer_memory(&Call::in, request.peer, 0, n));
    operation.moved.bytes += request.out.num_bytes();
    return;
  }
  for_segments(operation, n, most, [&](size_t first, size_t count) {
    const TensorView segment = part(request.out, first, count), nothing = part(segment, 0, 0);
    const auto receives = [&](size_t r) {
      return machines_.machine_of(r) != machines_.machine_of(request.peer) &&
             machines_.has_turn(r, first / most);
    };
    exchange(
        operation, [&](size_t r) { return is_root && receives(r) ? segment : nothing; },
        [&](size_t r) { return r == request.peer && receives(rank()) ? segment : nothing; });
    if (receives(rank())) give_here(operation, {first, count});
  });
}

// The ranks of a machine take turns in summing a segment and sending the sum to the root.
void MpiTransport::reduce_between_machines(Operation& operation) {
  const Request& request = operation.request;
  const bool is_root = rank() == request.peer;
  if (machines_.is_here(request.peer) && !is_root) return;  // the root reads from here
  const TensorView area = staging(request, machines_.size());
  const size_t most = slice_size(area, machines_.size());
  for_segments(operation, request.in.num_elements(), most, [&](size_t first, size_t count) {
    const auto sends = [&](size_t r) {
      return machines_.machine_of(r) != machines_.machine_of(request.peer) &&
             machines_.has_turn(r, first / most);
    };
    if (!is_root && !sends(rank())) return;
    const auto staged = [&](size_t machine) { return part(area, machine * count, count); };
    const TensorView sum = is_root ? part(request.out, first, count) : staged(machines_.own());
    const TensorView nothing = part(sum, 0, 0);
    sum_here(operation, sum, first);
    exchange(
        operation, [&](size_t r) { return r == request.peer ? sum : nothing; },
        [&](size_t r) { return is_root && sends(r) ? staged(machines_.machine_of(r)) : nothing; });
    if (!is_root) return;
    std::vector<ConstTensorView> sums;  // by machine
    for (size_t machine = 0; machine < machines_.size(); ++machine) {
      sums.push_back(machine == machines_.own() ? sum : staged(machine));
    }
    reduce_to_one(sum, sums, request.reduction);
  });
}

void MpiTransport::all_to_all_between_machines(Operation& operation) {
  const Request& request = operation.request;
  const PairCounts& counts = request.counts;
  for (size_t r : machines_.here()) {
    const size_t count = counts.of(r, rank());
    const TensorView to = part(request.out, counts.begin_received(r, rank()), count);
    copy_in_thread(to, peer_memory(&Call::in, r, counts.begin_sent(r, rank()), count));
    if (r != rank()) operation.moved.bytes += to.num_bytes();
  }
  exchange_parts(operation, rank_segment(), true);
}

}  // namespace ladder
