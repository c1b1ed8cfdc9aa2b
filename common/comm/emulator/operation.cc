// Everything travels through host memory, in pieces.
#include "common/comm/emulator/operation.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/collective.h"
#include "kernels/emulator/arena.h"

namespace ladder::emulator {
namespace {

constexpr size_t kPiece = size_t{1} << 16;  // elements
constexpr int kTag = 1;

using Bytes = std::vector<char>;

const char* name_of(NcclCall call) {
  const char* const names[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast",
                               "Reduce",    "Send",          "Recv"};
  return names[static_cast<int>(call)];
}

void read_device(char* host, const void* device, size_t offset, size_t bytes) {
  const DeviceAccess access;
  std::memcpy(host, static_cast<const char*>(device) + offset, bytes);
}

void write_device(void* device, size_t offset, const char* host, size_t bytes) {
  const DeviceAccess access;
  std::memcpy(static_cast<char*>(device) + offset, host, bytes);
}

DType dtype_of_nccl(ncclDataType_t type) {
  return type == ncclInt32 ? DType::int32 : type == ncclFloat32 ? DType::fp32 : DType::fp64;
}

// `all` holds `count` elements of every rank. The sum, or maximum, replaces the first rank's.
void reduce(const NcclOperation& operation, Bytes& all, size_t count) {
  const size_t bytes = count * size_of(operation.type);
  const auto part = [&](size_t rank) {
    return TensorView(all.data() + rank * bytes, dtype_of_nccl(operation.type), DeviceType::cpu,
                      {count});
  };
  std::vector<ConstTensorView> parts;
  for (size_t r = 0; r < static_cast<size_t>(operation.comm->size); ++r) parts.push_back(part(r));
  reduce_to_one(part(0), parts, operation.op == ncclSum ? Reduction::sum : Reduction::max);
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

// One piece of a collective: elements [first, first + n) of `count`.
void run_piece(const NcclOperation& o, size_t first, size_t n) {
  const size_t size = static_cast<size_t>(o.comm->size), unit = size_of(o.type);
  const size_t at = first * unit, bytes = n * unit, stride = o.count * unit;
  const int length = static_cast<int>(bytes);
  const bool at_root = o.comm->rank == o.peer;
  Bytes own(bytes), all(size * bytes);
  switch (o.call) {
    case NcclCall::all_reduce:
      read_device(own.data(), o.send, at, bytes);
      check_mpi(
          MPI_Allgather(own.data(), length, MPI_BYTE, all.data(), length, MPI_BYTE, o.comm->mpi));
      reduce(o, all, n);
      return write_device(o.recv, at, all.data(), bytes);
    case NcclCall::reduce_scatter: {
      Bytes parts(size * bytes);
      for (size_t r = 0; r < size; ++r) {
        read_device(parts.data() + r * bytes, o.send, r * stride + at, bytes);
      }
      check_mpi(
          MPI_Alltoall(parts.data(), length, MPI_BYTE, all.data(), length, MPI_BYTE, o.comm->mpi));
      reduce(o, all, n);
      return write_device(o.recv, at, all.data(), bytes);
    }
    case NcclCall::all_gather:
      read_device(own.data(), o.send, at, bytes);
      check_mpi(
          MPI_Allgather(own.data(), length, MPI_BYTE, all.data(), length, MPI_BYTE, o.comm->mpi));
      for (size_t r = 0; r < size; ++r) {
        write_device(o.recv, r * stride + at, all.data() + r * bytes, bytes);
      }
      return;
    case NcclCall::broadcast:
      if (at_root) read_device(own.data(), o.send, at, bytes);
      check_mpi(MPI_Bcast(own.data(), length, MPI_BYTE, o.peer, o.comm->mpi));
      return write_device(o.recv, at, own.data(), bytes);
    case NcclCall::reduce:
      read_device(own.data(), o.send, at, bytes);
      check_mpi(MPI_Gather(own.data(), length, MPI_BYTE, all.data(), length, MPI_BYTE, o.peer,
                           o.comm->mpi));
      if (!at_root) return;
      reduce(o, all, n);
      return write_device(o.recv, at, all.data(), bytes);
    case NcclCall::send:
    case NcclCall::recv:
      return;
  }
}

// Calls body(first, count) for pieces that cover [0, n).
template <class Body>
void for_pieces(size_t n, Body body) {
  for (size_t first = 0; first < n; first += kPiece) body(first, std::min(kPiece, n - first));
}

// A message is its number of bytes, then the bytes in pieces.
struct Outgoing {
  uint64_t bytes;
  Bytes data;
  std::vector<MPI_Request> requests;
};

bool has_ended(Outgoing& out) {
  int done = 0;
  check_mpi(MPI_Testall(static_cast<int>(out.requests.size()), out.requests.data(), &done,
                        MPI_STATUSES_IGNORE));
  return done != 0;
}

// As a stream would: a message moves while the caller does something else, or waits for a peer in
// shared memory, where MPI does not look for messages.
void see_off(std::unique_ptr<Outgoing> out, const std::atomic<bool>& aborted) {
  while (!has_ended(*out)) {
    if (aborted) return static_cast<void>(out.release());  // MPI may still read it
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

std::unique_ptr<Outgoing> start_send(const NcclOperation& o) {
  auto out = std::make_unique<Outgoing>();
  const size_t unit = size_of(o.type);
  out->bytes = o.count * unit;
  out->data.resize(out->bytes);
  if (out->bytes > 0) read_device(out->data.data(), o.send, 0, out->bytes);
  check_mpi(MPI_Isend(&out->bytes, 1, MPI_UINT64_T, o.peer, kTag, o.comm->mpi,
                      &out->requests.emplace_back()));
  for_pieces(o.count, [&](size_t first, size_t n) {
    check_mpi(MPI_Isend(out->data.data() + first * unit, static_cast<int>(n * unit), MPI_BYTE,
                        o.peer, kTag, o.comm->mpi, &out->requests.emplace_back()));
  });
  return out;
}

void forget_ended_sends(ncclComm& comm) {
  std::erase_if(comm.sends, [](std::future<void>& send) {
    if (send.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    send.get();  // throws what went wrong
    return true;
  });
}

// Takes the whole message, also one of another size than expected, so that its sender can go on.
void receive(const NcclOperation& o) {
  const size_t unit = size_of(o.type);
  uint64_t bytes = 0;
  check_mpi(MPI_Recv(&bytes, 1, MPI_UINT64_T, o.peer, kTag, o.comm->mpi, MPI_STATUS_IGNORE));
  Bytes data(bytes);
  for (size_t at = 0; at < bytes;) {
    MPI_Status status;
    int length = static_cast<int>(std::min(bytes - at, kPiece * sizeof(double)));
    check_mpi(MPI_Recv(data.data() + at, length, MPI_BYTE, o.peer, kTag, o.comm->mpi, &status));
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &length));
    at += static_cast<size_t>(length);
  }
  if (bytes != o.count * unit) {
    throw NcclFailure{ncclInvalidUsage, concat("Recv of ", o.count * unit, " bytes from rank ",
                                               o.peer, ", which has sent ", bytes)};
  }
  if (bytes > 0) write_device(o.recv, 0, data.data(), bytes);
}

}  // namespace

size_t size_of(ncclDataType_t type) { return type == ncclFloat64 ? 8 : 4; }

void check_mpi(int result) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw NcclFailure{ncclSystemError, std::string(text, static_cast<size_t>(length))};
}

void run_collective(const NcclOperation& operation) {
  compare(operation);
  for_pieces(operation.count, [&](size_t first, size_t n) { run_piece(operation, first, n); });
}

void run_transfers(std::span<const NcclOperation> operations) {
  std::vector<std::pair<ncclComm*, std::unique_ptr<Outgoing>>> started;
  for (const NcclOperation& o : operations) {
    forget_ended_sends(*o.comm);
    if (o.call == NcclCall::send) started.emplace_back(o.comm, start_send(o));
  }
  std::optional<NcclFailure> failure;
  for (const NcclOperation& o : operations) {
    if (o.call != NcclCall::recv) continue;
    try {
      receive(o);
    } catch (const NcclFailure& f) {
      if (!failure) failure = f;
    }
  }
  for (auto& [comm, out] : started) {
    if (has_ended(*out)) continue;
    comm->sends.push_back(
        std::async(std::launch::async, see_off, std::move(out), std::cref(comm->aborted)));
  }
  if (failure) throw *failure;
}

void finish_sends(ncclComm& comm) {
  for (std::future<void>& send : comm.sends) send.get();
  comm.sends.clear();
}

}  // namespace ladder::emulator
