// The transport between ranks that are MPI processes, for host memory. This header declares it; the
// paths are in mpi_transport.cc (shared memory) and mpi_messages.cc (messages).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "common/comm/meeting.h"
#include "common/comm/messages.h"
#include "common/comm/mpi_world.h"
#include "common/comm/node_memory.h"
#include "common/comm/staging.h"
#include "common/comm/transport.h"

namespace ladder {

struct MpiOptions {
  // The largest number of elements in one message. Tests have shorter messages.
  size_t piece_elements = kPieceElements;
  // Calls are always compared between ranks that share memory. If this is set, ranks that do not
  // share memory compare them too, by messages.
  bool check_collectives = false;
  // After this many seconds an Error names the ranks that are late; 0 = wait for ever. Setting it
  // turns on the comparison of check_collectives, so that all ranks know who has come.
  double timeout_seconds = 0;
  // A rank that sleeps in shared memory looks again after this time even if nobody has woken it.
  // Tests make it long, so that a lost wake-up shows.
  double longest_sleep_seconds = 0.01;
  // Slows down the messages of this rank in all groups; null: as fast as they go.
  std::shared_ptr<TokenBucket> network = nullptr;
  // For tests: send() returns only when its recv has begun, even if MPI could buffer the message.
  bool synchronous_sends = false;
};

// If all ranks of the group are on one machine, every call is compared with the peers' calls in
// shared memory. Buffers that are registered (node_memory.h) are then read and written in place:
// each rank sums its slice of the vector and writes the sum to all ranks. Buffers that are not
// registered, or that go between machines, are sent and received in pieces, and the same kernel
// sums them in rank order.
class MpiTransport final : public Transport {
 public:
  // Makes the group of all ranks. If `node_memory` is null, ranks share no memory. `world` and
  // `node_memory` must outlive the transport. Collective.
  static std::unique_ptr<Transport> make_world(const MpiWorld& world, NodeMemory* node_memory,
                                               const MpiOptions& options = {});
  ~MpiTransport() override;

  std::unique_ptr<Transport> split(size_t color) override;

 private:
  struct Setup;
  explicit MpiTransport(const Setup& setup);
  static std::unique_ptr<Transport> make(MPI_Comm comm, const MpiWorld& world,
                                         NodeMemory* node_memory, const MpiOptions& options);

  // A request that is being carried out.
  struct Operation {
    Operation(const Request& request_, const Call& call_)
        : request(request_),
          call(call_),
          label{.collective = call.collective, .dtype = call.dtype, .reduction = call.reduction} {}

    const Request& request;
    Call call;
    MessageLabel label;  // the label of its next messages
    size_t moved = 0;    // the bytes that this rank has moved to or from peers so far
  };

  size_t execute(const Request& request) override;
  void compare(const Request& request) override;
  Call describe(const Request& request) const;
  void compare_by_messages(const Call& own);

  // Returns elements [first, first + count) of a view.
  template <class View>
  static View part(const View& view, size_t first, size_t count) {
    return view.elements(first, {count});
  }
  // Returns elements [first, first + count) of the `in` buffer that a peer gave to this call. It is
  // registered memory of the peer, as this process sees it.
  TensorView peer_memory(const Request& request, size_t peer, size_t first, size_t count);
  void meet_and_execute(Operation& operation);
  void execute_shared(Operation& operation);

  // Calls body(first, count) for pieces of at most `piece` elements that cover [0, n), in order. If
  // n is 0 it calls body(0, 0) once.
  template <class Body>
  void for_pieces(Operation& operation, size_t n, size_t piece, Body body);
  // Sends the view send(r) to every other rank r and receives into the view recv(r) from it. A view
  // without elements is no message, unless the whole vector has no elements.
  template <class SendAt, class RecvAt>
  void exchange(Operation& operation, SendAt send, RecvAt recv);
  void execute_by_messages(Operation& operation);
  void send_or_recv(Operation& operation);
  void all_reduce_by_messages(Operation& operation);
  void reduce_scatter_by_messages(Operation& operation);
  void all_gather_by_messages(Operation& operation);
  void all_to_all_by_messages(Operation& operation);
  void broadcast_by_messages(Operation& operation);
  void reduce_by_messages(Operation& operation);
  // Returns the staging area for the call (staging.h): the one given to use_staging() if it is
  // large enough, else the transport's own.
  TensorView staging(const Request& request);
  // Returns the elements in one message where every rank sends one at the same time: together they
  // are one piece.
  size_t piece_of_a_rank() const { return std::max<size_t>(options_.piece_elements / size(), 1); }

  MPI_Comm comm_;
  const MpiWorld& world_;
  NodeMemory* node_memory_;
  MpiOptions options_;
  std::vector<size_t> node_ranks_;    // the members' ranks on this machine; empty if some are not
  std::vector<std::string> names_;    // the members' names
  std::unique_ptr<Meeting> meeting_;  // null unless all members are on this machine
  // `messages_` is for collectives, and `transfers_` for sends and receives, which may be under way
  // at the same time.
  Messages messages_, transfers_;
  uint64_t num_compared_ = 0;  // calls that were compared by messages
  std::vector<char> staging_;  // the transport's own staging area
};

}  // namespace ladder
