// The operations of MpiTransport between machines: shared memory on each, messages between them.
// See machines.h for who carries what.
#include <algorithm>
#include <vector>

#include "common/comm/mpi_transport.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Elements [first, first + count) of a vector.
struct Span {
  size_t first, count;
};

// Different ranks write different slices of one buffer, so slices begin at cache lines if they are
// long enough.
constexpr size_t kLine = 16;

// Returns the elements of the largest slices of which `most_slices` fit into `area`.
size_t slice_size(const TensorView& area, size_t most_slices) {
  const size_t most = area.num_elements() / most_slices;
  return most < kLine ? most : most / kLine * kLine;
}

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
  if (machines_.place() != 0) return;
  std::vector<Messages::Part> parts;
  for (size_t machine = 0; machine < machines_.size(); ++machine) {
    if (machine != machines_.own()) parts.push_back({machines_.ranks(machine)[0], nullptr, 0});
  }
  messages_.transfer(operation.call, operation.label, parts, parts, operation.moved);
}

void MpiTransport::sum_here(Operation& operation, TensorView out, size_t first) {
  std::vector<ConstTensorView> views;
  for (size_t r : machines_.here()) {
    views.push_back(peer_memory(operation.request, r, first, out.num_elements()));
  }
  reduce_to_one(out, views, operation.request.reduction);
  operation.moved.bytes += (views.size() - 1) * out.num_bytes();  // read from each peer
}

void MpiTransport::give_here(Operation& operation, size_t first, size_t count) {
  const TensorView own = part(operation.request.out, first, count);
  for (size_t r : machines_.here()) {
    if (r == rank()) continue;
    copy_in_thread(peer_out(operation.request, r, first, count), own);
    operation.moved.bytes += own.num_bytes();
  }
}

template <class SliceOf>
void MpiTransport::sum_slices(Operation& operation, TensorView own, TensorView area,
                              SliceOf slice_of) {
  const bool is_alone = machines_.here().size() == 1;
  size_t used = 0;  // elements of the area
  const auto take = [&](size_t count) {
    used += count;
    return part(area, used - count, count);
  };
  std::vector<Messages::Part> out, in;
  for (size_t r : machines_.carried()) {
    const auto [first, count] = slice_of(r);
    if (count == 0) continue;
    ConstTensorView sum = part(operation.request.in, first, count);
    if (!is_alone) {
      const TensorView staged = take(count);
      sum_here(operation, staged, first);
      sum = staged;
    }
    out.push_back({r, const_cast<void*>(sum.data()), sum.num_bytes()});
  }
  std::vector<ConstTensorView> sums;  // by machine
  if (own.num_elements() > 0) {
    sum_here(operation, own, slice_of(rank()).first);
    for (size_t machine = 0; machine < machines_.size(); ++machine) {
      if (machine == machines_.own()) {
        sums.push_back(own);
        continue;
      }
      const TensorView staged = take(own.num_elements());
      in.push_back({machines_.carrier(machine, rank()), staged.data(), staged.num_bytes()});
      sums.push_back(staged);
    }
  }
  messages_.transfer(operation.call, operation.label, out, in, operation.moved);
  if (!sums.empty()) reduce_to_one(own, sums, operation.request.reduction);
}

template <class SliceOf>
void MpiTransport::spread_slices(Operation& operation, SliceOf slice_of) {
  const TensorView buffer = operation.request.out;
  const auto message = [&](size_t peer, const Span& slice) {
    const TensorView view = part(buffer, slice.first, slice.count);
    return Messages::Part{peer, view.data(), view.num_bytes()};
  };
  const Span own = slice_of(rank());
  std::vector<Messages::Part> out, in;
  for (size_t machine = 0; machine < machines_.size() && own.count > 0; ++machine) {
    if (machine == machines_.own()) continue;
    out.push_back(message(machines_.carrier(machine, rank()), own));
  }
  for (size_t r : machines_.carried()) {
    if (slice_of(r).count > 0) in.push_back(message(r, slice_of(r)));
  }
  give_here(operation, own.first, own.count);
  messages_.transfer(operation.call, operation.label, out, in, operation.moved);
  for (size_t r : machines_.carried()) give_here(operation, slice_of(r).first, slice_of(r).count);
}

void MpiTransport::all_reduce_between_machines(Operation& operation) {
  const Request& request = operation.request;
  const TensorView area = staging(request, machines_.most_slices());
  const size_t most = slice_size(area, machines_.most_slices());
  const size_t n = request.out.num_elements();
  for (size_t begin = 0; begin < n; begin += most * size()) {
    const size_t count = std::min(most * size(), n - begin), each = even_slice(count, size(), most);
    operation.label.more_follows = begin + count < n;
    const auto slice_of = [&](size_t r) {
      const size_t first = std::min(count, r * each);
      return Span{begin + first, std::min(each, count - first)};
    };
    const Span own = slice_of(rank());
    sum_slices(operation, part(request.out, own.first, own.count), area, slice_of);
    spread_slices(operation, slice_of);
  }
}

void MpiTransport::reduce_scatter_between_machines(Operation& operation) {
  const Request& request = operation.request;
  const TensorView area = staging(request, machines_.most_slices());
  const size_t most = slice_size(area, machines_.most_slices());
  const size_t shard = request.out.num_elements();
  for (size_t begin = 0; begin < shard; begin += most) {
    const size_t count = std::min(most, shard - begin);
    operation.label.more_follows = begin + count < shard;
    sum_slices(operation, part(request.out, begin, count), area, [&](size_t r) {
      return Span{r * shard + begin, count};
    });
  }
}

void MpiTransport::all_gather_between_machines(Operation& operation) {
  const TensorView buffer = operation.request.out;
  const ConstTensorView shard = operation.request.in;
  const size_t n = shard.num_elements(), most = options_.piece_elements;
  const TensorView own = part(buffer, rank() * n, n);
  if (own.data() != shard.data()) copy_in_thread(own, part(shard, 0, n));
  for (size_t begin = 0; begin < n; begin += most) {
    const size_t count = std::min(most, n - begin);
    operation.label.more_follows = begin + count < n;
    spread_slices(operation, [&](size_t r) { return Span{r * n + begin, count}; });
  }
}

// The ranks of a machine take turns in receiving a piece, and give it to the others there.
void MpiTransport::broadcast_between_machines(Operation& operation) {
  const Request& request = operation.request;
  const size_t n = request.out.num_elements(), most = options_.piece_elements;
  const bool is_root = rank() == request.peer;
  if (machines_.is_here(request.peer)) {
    if (!is_root) {
      copy_in_thread(request.out, peer_memory(request, request.peer, 0, n));
      operation.moved.bytes += request.out.num_bytes();
      return;
    }
  }
  for (size_t begin = 0, turn = 0; begin < n; begin += most, ++turn) {
    const TensorView piece = part(request.out, begin, std::min(most, n - begin));
    operation.label.more_follows = begin + piece.num_elements() < n;
    std::vector<Messages::Part> out, in;
    for (size_t machine = 0; machine < machines_.size(); ++machine) {
      const std::vector<size_t>& ranks = machines_.ranks(machine);
      const size_t receiver = ranks[turn % ranks.size()];
      if (is_root && machine != machines_.own()) {
        out.push_back({receiver, piece.data(), piece.num_bytes()});
      }
      if (receiver == rank() && !is_root) {
        in.push_back({request.peer, piece.data(), piece.num_bytes()});
      }
    }
    if (out.empty() && in.empty()) continue;
    messages_.transfer(operation.call, operation.label, out, in, operation.moved);
    if (!is_root) give_here(operation, begin, piece.num_elements());
  }
}

// The ranks of a machine take turns in summing a piece and sending the sum to the root.
void MpiTransport::reduce_between_machines(Operation& operation) {
  const Request& request = operation.request;
  const bool is_root = rank() == request.peer;
  if (machines_.is_here(request.peer) && !is_root) return;  // the root reads from here
  const TensorView area = staging(request, machines_.size());
  const size_t n = request.in.num_elements(), most = slice_size(area, machines_.size());
  for (size_t begin = 0, turn = 0; begin < n; begin += most, ++turn) {
    const size_t count = std::min(most, n - begin);
    operation.label.more_follows = begin + count < n;
    const auto of_turn = [&](size_t machine) {
      const std::vector<size_t>& ranks = machines_.ranks(machine);
      return ranks[turn % ranks.size()];
    };
    if (!is_root && of_turn(machines_.own()) != rank()) continue;
    const TensorView sum = is_root ? part(request.out, begin, count) : part(area, 0, count);
    sum_here(operation, sum, begin);
    std::vector<Messages::Part> out, in;
    std::vector<ConstTensorView> sums;  // by machine
    if (!is_root) out.push_back({request.peer, sum.data(), sum.num_bytes()});
    for (size_t machine = 0; machine < machines_.size() && is_root; ++machine) {
      const bool is_own = machine == machines_.own();
      const TensorView view = is_own ? sum : part(area, machine * count, count);
      if (!is_own) in.push_back({of_turn(machine), view.data(), view.num_bytes()});
      sums.push_back(view);
    }
    messages_.transfer(operation.call, operation.label, out, in, operation.moved);
    if (is_root) reduce_to_one(sum, sums, request.reduction);
  }
}

void MpiTransport::all_to_all_between_machines(Operation& operation) {
  const Request& request = operation.request;
  const size_t each = request.in.num_elements() / size(), mine = rank() * each;
  for (size_t r : machines_.here()) {
    const TensorView to = part(request.out, r * each, each);
    copy_in_thread(to, peer_memory(request, r, mine, each));
    if (r != rank()) operation.moved.bytes += to.num_bytes();
  }
  const size_t most = std::max<size_t>(options_.piece_elements / size(), 1);
  for (size_t begin = 0; begin < each; begin += most) {
    const size_t count = std::min(most, each - begin);
    operation.label.more_follows = begin + count < each;
    std::vector<Messages::Part> out, in;
    for (size_t step = 1; step < size(); ++step) {
      const size_t peer = (rank() + step) % size();
      if (machines_.is_here(peer)) continue;
      const ConstTensorView from = part(request.in, peer * each + begin, count);
      const TensorView to = part(request.out, peer * each + begin, count);
      out.push_back({peer, const_cast<void*>(from.data()), from.num_bytes()});
      in.push_back({peer, to.data(), to.num_bytes()});
    }
    messages_.transfer(operation.call, operation.label, out, in, operation.moved);
  }
}

}  // namespace ladder
