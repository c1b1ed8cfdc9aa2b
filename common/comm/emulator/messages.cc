// Sends and receives. A message is its number of bytes, then the bytes in segments.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "common/comm/emulator/operation.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

constexpr int kTag = 1, kAbortTag = 2;

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

// A send runs in a thread of its own, so that the message moves, as on a stream, while the caller
// does something else or waits for a peer in shared memory, where MPI does not look for messages.
void see_off(std::unique_ptr<Outgoing> out, const std::atomic<bool>& aborted) {
  while (!has_ended(*out)) {
    if (aborted) return static_cast<void>(out.release());  // MPI may still read it
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

std::unique_ptr<Outgoing> start_send(const Exchange& exchange) {
  const NcclOperation& o = exchange.operation;
  auto out = std::make_unique<Outgoing>();
  out->bytes = exchange.sent.size();
  out->data = exchange.sent;
  check_mpi(MPI_Isend(&out->bytes, 1, MPI_UINT64_T, o.peer, kTag, o.comm->mpi,
                      &out->requests.emplace_back()));
  const size_t segment = kSegment * size_of(o.type);
  for (size_t at = 0; at < out->bytes; at += segment) {
    check_mpi(MPI_Isend(out->data.data() + at, static_cast<int>(std::min(segment, out->bytes - at)),
                        MPI_BYTE, o.peer, kTag, o.comm->mpi, &out->requests.emplace_back()));
  }
  return out;
}

void forget_ended_sends(ncclComm& comm) {
  std::erase_if(comm.sends, [](std::future<void>& send) {
    if (send.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    send.get();  // throws what went wrong
    return true;
  });
}

// Returns when there is a message of the peer. Throws if some peer has aborted instead.
void wait_for_message(const NcclOperation& o) {
  for (int found = 0; !found;) {
    check_mpi(MPI_Iprobe(o.peer, kTag, o.comm->mpi, &found, MPI_STATUS_IGNORE));
    if (found) return;
    if (has_peer_aborted(*o.comm)) {
      throw NcclFailure{ncclRemoteError, concat("waiting for rank ", o.peer)};
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// Receives the whole message even if its size is not the expected one, so that its sender can go
// on.
void receive(Exchange& exchange) {
  const NcclOperation& o = exchange.operation;
  uint64_t bytes = 0;
  wait_for_message(o);
  check_mpi(MPI_Recv(&bytes, 1, MPI_UINT64_T, o.peer, kTag, o.comm->mpi, MPI_STATUS_IGNORE));
  Bytes data(bytes);
  for (size_t at = 0; at < bytes;) {
    MPI_Status status;
    int length = static_cast<int>(std::min(bytes - at, kSegment * sizeof(double)));
    check_mpi(MPI_Recv(data.data() + at, length, MPI_BYTE, o.peer, kTag, o.comm->mpi, &status));
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &length));
    at += static_cast<size_t>(length);
  }
  if (bytes != exchange.received.size()) {
    throw NcclFailure{ncclInvalidUsage,
                      concat("Recv of ", exchange.received.size(), " bytes from rank ", o.peer,
                             ", which has sent ", bytes)};
  }
  exchange.received = std::move(data);
}

}  // namespace

void exchange_messages(std::span<Exchange* const> exchanges) {
  std::vector<std::pair<ncclComm*, std::unique_ptr<Outgoing>>> started;
  for (const Exchange* exchange : exchanges) {
    ncclComm* const comm = exchange->operation.comm;
    forget_ended_sends(*comm);
    if (exchange->operation.call == NcclCall::send) {
      started.emplace_back(comm, start_send(*exchange));
    }
  }
  std::optional<NcclFailure> failure;
  for (Exchange* exchange : exchanges) {
    if (exchange->operation.call != NcclCall::recv) continue;
    try {
      receive(*exchange);
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

void tell_peers_of_abort(ncclComm& comm) {
  for (int peer = 0; peer < comm.size; ++peer) {
    if (peer == comm.rank) continue;
    MPI_Request request;
    check_mpi(MPI_Isend(nullptr, 0, MPI_BYTE, peer, kAbortTag, comm.mpi, &request));
    check_mpi(MPI_Request_free(&request));
  }
}

bool has_peer_aborted(const ncclComm& comm) {
  int found = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kAbortTag, comm.mpi, &found, MPI_STATUS_IGNORE));
  return found != 0;
}

}  // namespace ladder::emulator
