// Ranks as MPI processes.
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
  // Of one message; tests have shorter ones.
  size_t piece_elements = kPieceElements;
  // Compare every call with the peers' also where they share no memory, by messages.
  bool check_collectives = false;
  // Seconds after which the ranks that are late are named in an error; 0 = wait for ever. Compares
  // calls as check_collectives does, so that all ranks know who has come.
  double timeout_seconds = 0;
  // Of a rank that waits for others in shared memory, before it looks again though nobody has woken
  // it: long in tests, where a wake-up that is lost has to show.
  double longest_sleep_seconds = 0.01;
  // send() returns only when its recv has begun, whatever MPI could buffer: for tests.
  bool synchronous_sends = false;
};

// Where all ranks of the group are on one machine, every call is compared with the peers' in shared
// memory, and buffers that are registered there are read and written in place: each rank reduces
// its slice of the vector and writes the sum to all. What is not registered, or goes between
// machines, is exchanged by send and recv in pieces and summed by the same kernel in rank order.
class MpiTransport final : public Transport {
 public:
  // The group of all ranks. Collective. `node_memory` may be null: no shared memory.
  static std::unique_ptr<Transport> make_world(const MpiWorld& world, NodeMemory* node_memory,
                                               const MpiOptions& options = {});
  ~MpiTransport() override;

  std::unique_ptr<Transport> split(size_t color) override;

 private:
  struct Setup;
  explicit MpiTransport(const Setup& setup);
  static std::unique_ptr<Transport> make(MPI_Comm comm, const MpiWorld& world,
                                         NodeMemory* node_memory, const MpiOptions& options);

  // A request that is being executed.
  struct Operation {
    Operation(const Request& request_, const Call& call_)
        : request(request_),
          call(call_),
          label{.collective = call.collective, .dtype = call.dtype, .reduction = call.reduction} {}

    const Request& request;
    Call call;
    MessageLabel label;  // of the next messages
    size_t moved = 0;    // bytes that this rank has moved to or from peers
  };

  size_t execute(const Request& request) override;
  void compare(const Request& request) override;
  Call describe(const Request& request) const;
  void compare_by_messages(const Call& own);

  // Elements [first, first + count) of a view.
  template <class View>
  static View part(const View& view, size_t first, size_t count) {
    return view.elements(first, {count});
  }
  // The registered `in` of a peer: elements [first, first + count).
  TensorView peer_memory(const Request& request, size_t peer, size_t first, size_t count);
  void meet_and_execute(Operation& operation);
  void execute_shared(Operation& operation);

  // Calls body(first, count) for pieces that cover [0, n), one after the other; once where n is 0.
  template <class Body>
  void for_pieces(Operation& operation, size_t n, size_t piece, Body body);
  // Sends send(r) to every other rank r and receives recv(r) from it; no message where a view has
  // no elements, unless all of the vector has none.
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
  // The area for the call: that of use_staging(), or the transport's own.
  TensorView staging(const Request& request);
  // Where a piece comes from every rank, all of them share one.
  size_t piece_of_a_rank() const { return std::max<size_t>(options_.piece_elements / size(), 1); }

  MPI_Comm comm_;
  const MpiWorld& world_;
  NodeMemory* node_memory_;
  MpiOptions options_;
  std::vector<size_t> node_ranks_;    // of the members, if all are on this machine
  std::vector<std::string> names_;    // of the members
  std::unique_ptr<Meeting> meeting_;  // if all are on this machine
  // Of collectives, and of sends and receives, which may be under way beside them.
  Messages messages_, transfers_;
  uint64_t num_compared_ = 0;
  std::vector<char> staging_;
};

}  // namespace ladder
