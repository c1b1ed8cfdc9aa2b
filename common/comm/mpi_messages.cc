// The operations of MpiTransport between ranks that share no memory, by messages.
#include <algorithm>
#include <vector>

#include "common/comm/mpi_segments.h"
#include "kernels/runtime/check.h"

namespace ladder {

TensorView MpiTransport::staging(const Request& request, size_t least) {
  const size_t elements =
      std::max(least, staging_elements(request.collective, size(), request.in.num_elements(),
                                       options_.segment_elements));
  const DType dtype = request.out.dtype();
  const size_t bytes = elements * size_of(dtype);
  const TensorView area = staging_area();
  if (!area.empty() && area.num_bytes() >= bytes) {
    return TensorView(area.data(), dtype, DeviceType::cpu, {elements});
  }
  staging_.resize(std::max(staging_.size(), bytes));
  return TensorView(staging_.data(), dtype, DeviceType::cpu, {elements});
}

void MpiTransport::compare_by_messages(const Call& own) {
  std::vector<Call> calls(size(), own);
  std::vector<Messages::Part> out, in;
  for (size_t r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    out.push_back({r, &calls[rank()], sizeof(Call)});
    in.push_back({r, &calls[r], sizeof(Call)});
  }
  Moved not_counted;
  messages_.transfer(own, {.is_description = true}, out, in, not_counted);
  ++num_compared_;
  for (size_t r = 0; r < size(); ++r) {
    require_same_call(num_compared_, names_, rank(), own, r, calls[r]);
  }
}

void MpiTransport::execute_by_messages(Operation& operation) {
  switch (operation.call.collective) {
    case Collective::all_reduce:
      return all_reduce_by_messages(operation);
    case Collective::reduce_scatter:
      return reduce_scatter_by_messages(operation);
    case Collective::all_gather:
      return all_gather_by_messages(operation);
    case Collective::broadcast:
      return broadcast_by_messages(operation);
    case Collective::reduce:
      return reduce_by_messages(operation);
    case Collective::all_to_all:
      return all_to_all_by_messages(operation);
    case Collective::send:
    case Collective::recv:
      return send_or_recv(operation);
    case Collective::barrier: {
      const auto nothing = [](size_t) {
        return TensorView(nullptr, DType::fp32, DeviceType::cpu, {0});
      };
      return exchange(operation, nothing, nothing);
    }
  }
}

void MpiTransport::send_or_recv(Operation& operation) {
  const Request& request = operation.request;
  const bool sends = request.collective == Collective::send;
  operation.label.collective = Collective::send;  // on both sides
  for_segments(
      operation, operation.call.elements, options_.segment_elements,
      [&](size_t first, size_t count) {
        Messages::Part message = {request.peer, nullptr, count * size_of(operation.call.dtype)};
        message.data = sends ? const_cast<void*>(part(request.in, first, count).data())
                             : part(request.out, first, count).data();
        const std::span<const Messages::Part> one(&message, 1), none;
        transfers_.transfer(operation.call, operation.label, sends ? one : none, sends ? none : one,
                            operation.moved);
      });
}

// Rank r collects slice r of a segment from all, sums it in rank order, and sends the sum to all.
void MpiTransport::all_reduce_by_messages(Operation& operation) {
  const Request& request = operation.request;
  const TensorView area = staging(request);
  for_segments(operation, request.out.num_elements(), options_.segment_elements,
               [&](size_t begin, size_t count) {
                 const TensorView segment = part(request.out, begin, count);
                 const size_t each = (count + size() - 1) / size();
                 const auto slice = [&](size_t r) {
                   const size_t first = std::min(count, r * each);
                   return part(segment, first, std::min(each, count - first));
                 };
                 const TensorView own = slice(rank());
                 const auto staged = [&](size_t r) {
                   return part(area, r * each, own.num_elements());
                 };
                 exchange(operation, slice, staged);
                 if (own.num_elements() > 0) {
                   std::vector<ConstTensorView> views;
                   for (size_t r = 0; r < size(); ++r)
                     views.push_back(r == rank() ? own : staged(r));
                   reduce_to_one(own, views, request.reduction);
                 }
                 exchange(
                     operation, [&](size_t) { return own; }, slice);
               });
}

void MpiTransport::reduce_scatter_by_messages(Operation& operation) {
  const Request& request = operation.request;
  const size_t shard = request.out.num_elements();
  const TensorView area = staging(request);
  for_segments(operation, shard, rank_segment(), [&](size_t first, size_t count) {
    const auto mine = [&](size_t r) { return part(request.in, r * shard + first, count); };
    const auto staged = [&](size_t r) { return part(area, r * count, count); };
    exchange(operation, mine, staged);
    std::vector<ConstTensorView> views;
    for (size_t r = 0; r < size(); ++r) {
      views.push_back(r == rank() ? mine(r) : ConstTensorView(staged(r)));
    }
    reduce_to_one(part(request.out, first, count), views, request.reduction);
  });
}

void MpiTransport::all_gather_by_messages(Operation& operation) {
  const TensorView buffer = operation.request.out;
  const ConstTensorView shard = operation.request.in;
  const size_t n = shard.num_elements();
  const TensorView own = part(buffer, rank() * n, n);
  if (own.data() != shard.data()) copy_in_thread(own, part(shard, 0, n));
  for_segments(operation, n, options_.segment_elements, [&](size_t first, size_t count) {
    exchange(
        operation, [&](size_t) { return part(own, first, count); },
        [&](size_t r) { return part(buffer, r * n + first, count); });
  });
}

void MpiTransport::all_to_all_by_messages(Operation& operation) {
  const Request& request = operation.request;
  const PairCounts& counts = request.counts;
  copy_in_thread(
      part(request.out, counts.begin_received(rank(), rank()), counts.of(rank(), rank())),
      part(request.in, counts.begin_sent(rank(), rank()), counts.of(rank(), rank())));
  exchange_parts(operation, options_.segment_elements, false);
}

void MpiTransport::exchange_parts(Operation& operation, size_t most, bool between_machines) {
  const Request& request = operation.request;
  const PairCounts& counts = request.counts;
  for_segments(operation, counts.largest(), most, [&](size_t first, size_t count) {
    const PairCounts segment = counts.segment(first, count);
    const auto of = [&](const auto& view, size_t begin, size_t r, size_t n) {
      const bool is_message = n > 0 && !(between_machines && machines_.is_here(r));
      return is_message ? part(view, begin + first, n) : part(view, 0, 0);
    };
    exchange(
        operation,
        [&](size_t r) {
          return of(request.in, counts.begin_sent(rank(), r), r, segment.of(rank(), r));
        },
        [&](size_t r) {
          return of(request.out, counts.begin_received(r, rank()), r, segment.of(r, rank()));
        });
  });
}

void MpiTransport::broadcast_by_messages(Operation& operation) {
  const Request& request = operation.request;
  const bool is_root = rank() == request.peer;
  for_segments(operation, request.out.num_elements(), options_.segment_elements,
               [&](size_t first, size_t count) {
                 const TensorView segment = part(request.out, first, count),
                                  nothing = part(segment, 0, 0);
                 exchange(
                     operation, [&](size_t) { return is_root ? segment : nothing; },
                     [&](size_t r) { return r == request.peer ? segment : nothing; });
               });
}

void MpiTransport::reduce_by_messages(Operation& operation) {
  const Request& request = operation.request;
  const bool is_root = rank() == request.peer;
  const TensorView area = is_root ? staging(request) : TensorView();
  for_segments(operation, request.in.num_elements(), rank_segment(),
               [&](size_t first, size_t count) {
                 const TensorView own = part(request.out, first, count), nothing = part(own, 0, 0);
                 const auto staged = [&](size_t r) { return part(area, r * count, count); };
                 exchange(
                     operation, [&](size_t r) { return r == request.peer ? own : nothing; },
                     [&](size_t r) { return is_root ? staged(r) : nothing; });
                 if (!is_root) return;
                 std::vector<ConstTensorView> views;
                 for (size_t r = 0; r < size(); ++r) views.push_back(r == rank() ? own : staged(r));
                 reduce_to_one(own, views, request.reduction);
               });
}

}  // namespace ladder
