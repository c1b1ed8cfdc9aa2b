// Everything travels through host memory, in segments.
#include "common/comm/emulator/operation.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>

#include "kernels/collective.h"
#include "kernels/emulator/arena.h"
#include "kernels/emulator/observers.h"

namespace ladder::emulator {
namespace {

DType dtype_of_nccl(ncclDataType_t type) {
  switch (type) {
    case ncclInt32:
      return DType::int32;
    case ncclFloat16:
      return DType::fp16;
    case ncclFloat32:
      return DType::fp32;
    case ncclFloat64:
      return DType::fp64;
    case ncclBfloat16:
      return DType::bf16;
  }
  throw NcclFailure{ncclInvalidArgument, "no such data type"};
}

// `all` holds `count` elements of every rank. Stores the sum, or maximum, at `to`.
void reduce(const NcclOperation& operation, Bytes& all, size_t count, char* to) {
  const size_t bytes = count * size_of(operation.type);
  const auto part = [&](size_t rank) {
    return TensorView(all.data() + rank * bytes, dtype_of_nccl(operation.type), DeviceType::cpu,
                      {count});
  };
  std::vector<ConstTensorView> parts;
  for (size_t r = 0; r < static_cast<size_t>(operation.comm->size); ++r) parts.push_back(part(r));
  reduce_to_one(part(0), parts, operation.op == ncclSum ? Reduction::sum : Reduction::max);
  std::copy_n(all.data(), bytes, to);
}

// Where a buffer lies: 0 in memory that is not registered, 1 in registered memory, or in a window,
// which is 2 and more, at an offset.
using Spot = std::array<uint64_t, 2>;
Spot spot_of(const void* pointer, size_t bytes, const ncclComm& comm) {
  Spot spot = {};
  for (const auto& registration : comm.registrations) {
    if (bytes == 0 || !overlap(registration->buffer, {pointer, bytes})) continue;
    if (registration->window < 0) {
      spot[0] = std::max<uint64_t>(spot[0], 1);
      continue;
    }
    const char* const begin = static_cast<const char*>(registration->buffer.begin);
    spot = {2 + static_cast<uint64_t>(registration->window),
            static_cast<uint64_t>(static_cast<const char*>(pointer) - begin)};
  }
  return spot;
}

// Throws unless the buffers of all ranks lie in the same place. What only some ranks have is not
// compared, nor where a part of the other buffer lies.
void compare_buffers(const NcclOperation& o) {
  const size_t unit = size_of(o.type);
  const auto is_part_of = [&](const void* part, const void* whole) {
    return part ==
           static_cast<const char*>(whole) + static_cast<size_t>(o.comm->rank) * o.count * unit;
  };
  const bool no_send = o.call == NcclCall::broadcast ||
                       (o.call == NcclCall::all_gather && is_part_of(o.send, o.recv));
  const bool no_recv = o.call == NcclCall::reduce ||
                       (o.call == NcclCall::reduce_scatter && is_part_of(o.recv, o.send));
  using Spots = std::array<Spot, 2>;
  const Spots own = {no_send ? Spot{} : spot_of(o.send, o.send_count * unit, *o.comm),
                     no_recv ? Spot{} : spot_of(o.recv, o.recv_count * unit, *o.comm)};
  std::vector<Spots> all(static_cast<size_t>(o.comm->size));
  check_mpi(MPI_Allgather(own.data(), 4, MPI_UINT64_T, all.data(), 4, MPI_UINT64_T, o.comm->mpi));
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r] == own) continue;
    throw NcclFailure{
        ncclInvalidUsage,
        concat(name_of(o.call), " of ", o.count, " elements: the buffers of ranks ", o.comm->rank,
               " and ", r, " are not both registered, or lie in different places of a window")};
  }
}

// Throws unless all ranks call the same.
void compare(const NcclOperation& operation) {
  const bool has_root = operation.call == NcclCall::broadcast || operation.call == NcclCall::reduce;
  const bool reduces =
      operation.call != NcclCall::broadcast && operation.call != NcclCall::all_gather;
  using Key = std::array<uint64_t, 5>;
  const Key own = {static_cast<uint64_t>(operation.call), operation.count,
                   static_cast<uint64_t>(operation.type),
                   reduces ? static_cast<uint64_t>(operation.op) : 0,
                   has_root ? static_cast<uint64_t>(operation.peer) : 0};
  std::vector<Key> all(static_cast<size_t>(operation.comm->size));
  check_mpi(
      MPI_Allgather(own.data(), 5, MPI_UINT64_T, all.data(), 5, MPI_UINT64_T, operation.comm->mpi));
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r] == own) continue;
    throw NcclFailure{ncclInvalidUsage,
                      concat("rank ", operation.comm->rank, " calls ", name_of(operation.call),
                             " of ", operation.count, " elements, rank ", r, " ",
                             name_of(static_cast<NcclCall>(all[r][0])), " of ", all[r][1],
                             ", or of another type, operation or root")};
  }
}

// One segment of a collective: elements [first, first + n) of `count`.
void exchange_segment(Exchange& exchange, size_t first, size_t n) {
  const NcclOperation& o = exchange.operation;
  const size_t size = static_cast<size_t>(o.comm->size), unit = size_of(o.type);
  const size_t at = first * unit, bytes = n * unit, stride = o.count * unit;
  const int length = static_cast<int>(bytes);
  const bool at_root = o.comm->rank == o.peer;
  const char* const in = exchange.sent.data();
  char* const out = exchange.received.data();
  Bytes all(size * bytes);
  switch (o.call) {
    case NcclCall::all_reduce:
      check_mpi(
          MPI_Allgather(in + at, length, MPI_BYTE, all.data(), length, MPI_BYTE, o.comm->mpi));
      return reduce(o, all, n, out + at);
    case NcclCall::reduce_scatter: {
      Bytes parts(size * bytes);
      for (size_t r = 0; r < size; ++r) {
        std::copy_n(in + r * stride + at, bytes, parts.data() + r * bytes);
      }
      check_mpi(
          MPI_Alltoall(parts.data(), length, MPI_BYTE, all.data(), length, MPI_BYTE, o.comm->mpi));
      return reduce(o, all, n, out + at);
    }
    case NcclCall::all_gather:
      check_mpi(
          MPI_Allgather(in + at, length, MPI_BYTE, all.data(), length, MPI_BYTE, o.comm->mpi));
      for (size_t r = 0; r < size; ++r) {
        std::copy_n(all.data() + r * bytes, bytes, out + r * stride + at);
      }
      return;
    case NcclCall::broadcast:
      if (at_root) std::copy_n(in + at, bytes, out + at);
      return check_mpi(MPI_Bcast(out + at, length, MPI_BYTE, o.peer, o.comm->mpi));
    case NcclCall::reduce:
      check_mpi(
          MPI_Gather(in + at, length, MPI_BYTE, all.data(), length, MPI_BYTE, o.peer, o.comm->mpi));
      if (at_root) reduce(o, all, n, out + at);
      return;
    case NcclCall::send:
    case NcclCall::recv:
      return;
  }
}

// Begins an operation: runs what is queued on its stream before it, and copies what it sends.
Exchange begin(const NcclOperation& o) {
  const size_t unit = size_of(o.type);
  const Range from = {o.send, o.send_count * unit}, to = {o.recv, o.recv_count * unit};
  run_for(o.stream, from);
  Exchange exchange = {o, Bytes(from.bytes), Bytes(to.bytes)};
  for (const auto& registration : o.comm->registrations) {
    if (overlap(registration->buffer, from) || overlap(registration->buffer, to)) {
      exchange.registrations.push_back(registration);
    }
  }
  const DeviceAccess access;
  if (from.bytes > 0) std::memcpy(exchange.sent.data(), from.begin, from.bytes);
  return exchange;
}

// Ends an operation. It runs when the stream reaches the operation.
void store(const Exchange& exchange) {
  const auto& [o, sent, received, registrations] = exchange;
  const auto require = [&o](bool fine, const char* otherwise) {
    if (fine) return;
    throw Error(concat("NCCL's ", name_of(o.call), " of ", o.count, " elements: ", otherwise,
                       " before it had ended"));
  };
  const Arena& arena = Arena::instance();
  require(sent.empty() || arena.holds(o.send, sent.size()), "a buffer was freed");
  require(received.empty() || arena.holds(o.recv, received.size()), "a buffer was freed");
  for (const auto& r : registrations) require(!r->ended, "a buffer was deregistered");
  const DeviceAccess access;
  require(sent.empty() || std::memcmp(o.send, sent.data(), sent.size()) == 0,
          "what it sends was written");
  if (!received.empty()) std::memcpy(o.recv, received.data(), received.size());
  tell_observers([&](Observer& observer) {
    observer.work_is("an operation of NCCL");
    if (!sent.empty()) observer.read(o.send, sent.size());
    if (!received.empty()) observer.written(o.recv, received.size());
  });
}

}  // namespace

size_t size_of(ncclDataType_t type) { return size_of(dtype_of_nccl(type)); }

const char* name_of(NcclCall call) {
  const char* const names[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast",
                               "Reduce",    "Send",          "Recv"};
  return names[static_cast<int>(call)];
}

void check_mpi(int result) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw NcclFailure{ncclSystemError, std::string(text, static_cast<size_t>(length))};
}

void exchange_collective(Exchange& exchange) {
  compare(exchange.operation);
  compare_buffers(exchange.operation);
  const size_t count = exchange.operation.count;
  for (size_t first = 0; first < count; first += kSegment) {
    exchange_segment(exchange, first, std::min(kSegment, count - first));
  }
}

void run_operations(std::span<const NcclOperation> operations) {
  std::vector<std::shared_ptr<Exchange>> exchanges;
  std::vector<Exchange*> messages;
  for (const NcclOperation& o : operations) {
    exchanges.push_back(std::make_shared<Exchange>(begin(o)));
  }
  for (const auto& exchange : exchanges) {
    const NcclCall call = exchange->operation.call;
    if (call == NcclCall::send || call == NcclCall::recv) {
      messages.push_back(exchange.get());
    } else {
      exchange_collective(*exchange);
    }
  }
  exchange_messages(messages);
  for (const auto& exchange : exchanges) {
    const NcclOperation& o = exchange->operation;
    give(
        o.stream, [exchange] { store(*exchange); }, Range{o.recv, exchange->received.size()});
  }
}

}  // namespace ladder::emulator
