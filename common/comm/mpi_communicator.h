// Ranks as MPI processes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "common/comm/communicator.h"
#include "common/comm/meeting.h"
#include "common/comm/mpi_world.h"
#include "common/comm/node_memory.h"
#include "common/comm/staging.h"

namespace ladder {

struct MpiOptions {
  // Of one message; tests have shorter ones.
  size_t piece_elements = kPieceElements;
  // Compare every call with the peers' over MPI also where they share no memory.
  bool check_collectives = false;
  // Seconds after which ranks that did not arrive are named in an error; 0 = wait for ever. Between
  // ranks that share no memory the peers of sends and receives alone have names.
  double timeout_seconds = 0;
  // send() returns only when its recv has begun, whatever MPI could buffer: for tests.
  bool synchronous_sends = false;
};

// Where all ranks of the group are on one machine, every call is compared with the peers' in shared
// memory, and buffers that are registered there are read and written in place: each rank reduces
// its slice of the vector and writes the sum to all. What is not registered, or goes between
// machines, is exchanged by send and recv in pieces and summed by the same kernel in rank order.
class MpiCommunicator final : public Communicator {
 public:
  // The group of all ranks. Collective. `node_memory` may be null: no shared memory.
  static std::unique_ptr<Communicator> make_world(const MpiWorld& world, NodeMemory* node_memory,
                                                  const MpiOptions& options = {});
  ~MpiCommunicator() override;

  std::unique_ptr<Communicator> split(size_t color) override;

  // Bytes that this rank has read from and written to peers' memory, counted where they move.
  size_t shared_bytes() const { return shared_bytes_; }

 private:
  struct Setup;
  explicit MpiCommunicator(const Setup& setup);
  static std::unique_ptr<Communicator> make(MPI_Comm comm, const MpiWorld& world,
                                            NodeMemory* node_memory, const MpiOptions& options);

  void execute(const Request& request) override;
  void compare(const Request& request) override;
  Meeting::Call describe(const Request& request) const;
  void check_over_mpi(const Meeting::Call& call);

  // Elements [first, first + count) of a view.
  template <class View>
  static View part(const View& view, size_t first, size_t count) {
    return view.elements(first, {count});
  }
  // The registered `in` of a peer: elements [first, first + count).
  TensorView peer_memory(const Request& request, size_t peer, size_t first, size_t count);
  void execute_shared(const Request& request);

  // Sends `count` elements at send(r) to every other rank r and receives as many at recv(r).
  template <class SendAt, class RecvAt>
  void exchange(DType dtype, SendAt send, RecvAt recv);
  void execute_by_messages(const Request& request);
  // Returns when all have ended. Throws Error where this communicator is given up.
  // Or, after the timeout, naming the peer of a `transfer` (a send or recv).
  void finish(std::span<MPI_Request> requests, MPI_Status* statuses = MPI_STATUSES_IGNORE,
              const Request* transfer = nullptr);
  void recv_by_messages(const Request& request);
  void all_reduce_by_messages(const Request& request);
  void reduce_scatter_by_messages(const Request& request);
  void all_gather_by_messages(TensorView buffer, ConstTensorView shard);
  void reduce_by_messages(const Request& request);
  // The area for the call: that of use_staging(), or the communicator's own.
  TensorView staging(const Request& request);
  // Where a piece comes from every rank, all of them share one.
  size_t piece_of_a_rank() const { return std::max<size_t>(options_.piece_elements / size(), 1); }

  MPI_Comm comm_;
  const MpiWorld& world_;
  NodeMemory* node_memory_;
  MpiOptions options_;
  std::vector<size_t> node_ranks_;    // of the members, if all are on this machine
  std::unique_ptr<Meeting> meeting_;  // if all are on this machine
  std::vector<char> staging_;
  std::atomic<size_t> shared_bytes_ = 0;
};

}  // namespace ladder
