// The transport between ranks that are MPI processes, for host memory. This header declares it; the
// paths are in mpi_transport.cc (shared memory), mpi_messages.cc (messages) and mpi_machines.cc
// (shared memory on each machine, messages between machines).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "common/comm/machines.h"
#include "common/comm/meeting.h"
#include "common/comm/messages.h"
#include "common/comm/mpi_options.h"
#include "common/comm/mpi_world.h"
#include "common/comm/node_memory.h"
#include "common/comm/staging.h"
#include "common/comm/transport.h"

namespace ladder {

// Every call is compared in shared memory with those of the peers on this machine. Buffers that are
// registered (node_memory.h) are read and written in place: each rank sums its slice of the vector
// and writes the sum to all ranks. Between machines only slices travel, in messages: the ranks of
// each machine first sum what they have, and the owner of a slice adds these sums. Buffers that are
// not registered are sent and received in segments by all ranks, and the same kernel sums them in
// rank order.
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

  struct Operation;  // a request that is being carried out (mpi_segments.h)

  static Machines find_machines(const Setup& setup);
  void share_memory();
  Moved execute(const Request& request) override;
  void compare(const Request& request) override;
  Call describe(const Request& request) const;
  void compare_by_messages(const Call& own);

  // Returns elements [first, first + count) of a view.
  template <class View>
  static View part(const View& view, size_t first, size_t count) {
    return view.elements(first, {count});
  }
  // Returns elements [first, first + count) of a buffer, &Call::in or &Call::out, that a peer on
  // this machine gave to this call. It is registered memory of the peer, as this process sees it.
  TensorView peer_memory(Call::Buffer Call::*buffer, size_t peer, size_t first, size_t count) const;
  // Returns whether all ranks on this machine have registered what the call needs.
  bool is_registered(Collective collective) const;
  void meet_and_execute(Operation& operation);
  void execute_shared(Operation& operation);

  // Calls stage(first, count) for segments of at most `segment` elements that cover [0, n), in
  // order. If n is 0 it does so once, with (0, 0). Each further stage follows one segment later:
  // stage 1 of the next segment runs before stage 2 of this one, so its messages travel meanwhile.
  // (This and the exchanges are in mpi_segments.h.)
  template <class... Stages>
  void for_segments(Operation& operation, size_t n, size_t segment, Stages... stages);
  // Sends the view send(r) to every other rank r and receives into the view recv(r) from it. A view
  // without elements is no message, unless the whole vector has no elements.
  template <class SendAt, class RecvAt>
  void exchange(Operation& operation, SendAt send, RecvAt recv);
  // The same in two parts. Exchanges end in the order in which they were started.
  template <class SendAt, class RecvAt>
  void start_exchange(Operation& operation, SendAt send, RecvAt recv);
  void finish_exchange(Operation& operation);
  void execute_by_messages(Operation& operation);
  void send_or_recv(Operation& operation);
  void all_reduce_by_messages(Operation& operation);
  void reduce_scatter_by_messages(Operation& operation);
  void all_gather_by_messages(Operation& operation);
  void all_to_all_by_messages(Operation& operation);
  // Exchanges the parts of an all_to_all in segments of `most` elements, if `between_machines` is
  // true only those of ranks on two machines.
  void exchange_parts(Operation& operation, size_t most, bool between_machines);
  void broadcast_by_messages(Operation& operation);
  void reduce_by_messages(Operation& operation);

  // The operations between machines (mpi_machines.cc). A slice is the part of the vector that one
  // rank of the group owns.
  void execute_between_machines(Operation& operation);
  void all_reduce_between_machines(Operation& operation);
  void reduce_scatter_between_machines(Operation& operation);
  void all_gather_between_machines(Operation& operation);
  void broadcast_between_machines(Operation& operation);
  void reduce_between_machines(Operation& operation);
  void all_to_all_between_machines(Operation& operation);
  // The first ranks of all machines send each other a message without data, and wait for those of
  // the others.
  void meet_other_machines(Operation& operation);
  // Sets `out` to the sum, over the ranks of this machine, of elements [first, first + count).
  void sum_here(Operation& operation, TensorView out, size_t first);
  // Elements [first, first + count) of a vector.
  struct Span {
    size_t first, count;
  };
  // Copies these elements of this rank's `out` to the other ranks of this machine.
  void give_here(Operation& operation, const Span& elements);
  // Adds up slices; slice_of(r) returns rank r's. Sums over the ranks of each machine travel to the
  // owner, whose sum is in `own` when finish_sums() returns. `area` holds what travels until then.
  // Returns the sums by machine, which finish_sums() adds.
  template <class SliceOf>
  std::vector<TensorView> start_sums(Operation& operation, TensorView own, TensorView area,
                                     SliceOf slice_of);
  void finish_sums(Operation& operation, const std::vector<TensorView>& sums);
  // Sends this rank's slice of `out` to all other machines, and what comes from them, and this
  // slice, to the other ranks of this machine.
  template <class SliceOf>
  void start_spreading(Operation& operation, SliceOf slice_of);
  template <class SliceOf>
  void finish_spreading(Operation& operation, SliceOf slice_of);

  // Returns the staging area for the call (staging.h), of at least `least` elements: the one given
  // to use_staging() if it is large enough, else the transport's own.
  TensorView staging(const Request& request, size_t least = 0);
  // Returns the elements in one message where every rank sends one at the same time: together they
  // are one segment.
  size_t rank_segment() const { return std::max<size_t>(options_.segment_elements / size(), 1); }

  MPI_Comm comm_;
  const MpiWorld& world_;
  NodeMemory* node_memory_;
  MpiOptions options_;
  std::vector<std::string> names_;       // the members' names
  Machines machines_;                    // the members' machines
  std::vector<size_t> node_ranks_;       // of each member on this machine, its rank there
  std::vector<std::string> names_here_;  // the names of the members on this machine
  std::unique_ptr<Meeting> meeting_;     // of these members; null unless members share memory
  // `messages_` is for collectives, and `transfers_` for sends and receives, which may be under way
  // at the same time.
  Messages messages_, transfers_;
  uint64_t num_compared_ = 0;  // calls that were compared by messages
  std::vector<char> staging_;  // the transport's own staging area
};

}  // namespace ladder
