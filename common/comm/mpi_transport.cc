#include "common/comm/mpi_transport.h"

#include <algorithm>
#include <exception>

#include "common/comm/delay.h"
#include "common/comm/mpi_segments.h"
#include "common/comm/one_rank.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Returns slice `index` of `count` elements that are divided among `parts` ranks. A slice begins at
// a multiple of a cache line, so the last slices may be shorter or empty.
struct Slice {
  size_t first, count;
};
Slice slice_of(size_t count, size_t parts, size_t index) {
  constexpr size_t kLine = 16;
  const size_t each = ((count + parts - 1) / parts + kLine - 1) / kLine * kLine;
  const size_t first = std::min(count, each * index);
  return {first, std::min(each, count - first)};
}

Messages::Options message_options(const MpiOptions& options, const MpiWorld& world) {
  return {.timeout_seconds = options.timeout_seconds,
          .synchronous_sends = options.synchronous_sends,
          .network = options.network,
          .world = &world};
}

}  // namespace

struct MpiTransport::Setup {
  MPI_Comm comm;
  const MpiWorld& world;
  NodeMemory* node_memory;
  MpiOptions options;
  int rank, size;
};

std::unique_ptr<Transport> MpiTransport::make(MPI_Comm comm, const MpiWorld& world,
                                              NodeMemory* node_memory, const MpiOptions& options) {
  Setup setup = {comm, world, node_memory, options, 0, 0};
  mpi_check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  mpi_check(MPI_Comm_rank(comm, &setup.rank));
  mpi_check(MPI_Comm_size(comm, &setup.size));
  if (setup.size > 1) return std::unique_ptr<Transport>(new MpiTransport(setup));
  MPI_Comm_free(&comm);
  return std::make_unique<OneRank>();
}

std::unique_ptr<Transport> MpiTransport::make_world(const MpiWorld& world, NodeMemory* node_memory,
                                                    const MpiOptions& options) {
  const auto limit = world.limit_wait();
  MPI_Comm comm = MPI_COMM_NULL;
  mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  return make(comm, world, node_memory, options);
}

std::unique_ptr<Transport> MpiTransport::split(size_t color) {
  MPI_Comm comm = MPI_COMM_NULL;
  maybe_delay("split");
  const auto limit = world_.limit_wait();
  mpi_check(MPI_Comm_split(comm_, static_cast<int>(color), static_cast<int>(rank()), &comm));
  return make(comm, world_, node_memory_, options_);
}

MpiTransport::MpiTransport(const Setup& setup)
    : Transport(static_cast<size_t>(setup.rank), static_cast<size_t>(setup.size)),
      comm_(setup.comm),
      world_(setup.world),
      node_memory_(setup.node_memory),
      options_(setup.options),
      names_(world_.names_of(comm_)),
      machines_(find_machines(setup)),
      messages_(comm_, names_, machines_, message_options(options_, world_), given_up()),
      transfers_(comm_, names_, machines_, message_options(options_, world_), given_up()) {
  if (node_memory_ != nullptr && machines_.size() < size()) share_memory();
}

Machines MpiTransport::find_machines(const Setup& setup) {
  const std::vector<size_t>& as_if = setup.options.machine_of;
  const MpiWorld& world = setup.world;
  uint64_t own = (as_if.empty() ? world.machine_of() : as_if)[world.rank()];
  std::vector<uint64_t> all(static_cast<size_t>(setup.size));
  mpi_check(MPI_Allgather(&own, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, setup.comm));
  return Machines({all.begin(), all.end()}, static_cast<size_t>(setup.rank));
}

void MpiTransport::share_memory() {
  MPI_Comm here = MPI_COMM_NULL;
  mpi_check(
      MPI_Comm_split(comm_, static_cast<int>(machines_.own()), static_cast<int>(rank()), &here));
  int node_rank = static_cast<int>(world_.node_rank());
  std::vector<int> node_ranks(machines_.here().size());
  mpi_check(MPI_Allgather(&node_rank, 1, MPI_INT, node_ranks.data(), 1, MPI_INT, here));
  node_ranks_.assign(node_ranks.begin(), node_ranks.end());
  for (size_t r : machines_.here()) names_here_.push_back(names_[r]);
  meeting_ = std::make_unique<Meeting>(
      here, names_here_,
      Meeting::Limits{options_.timeout_seconds, options_.longest_sleep_seconds, &world_},
      given_up());
  MPI_Comm_free(&here);
}

MpiTransport::~MpiTransport() {
  maybe_delay("destroyed: before its window is");
  meeting_.reset();
  // After giving up, peers may still write into the staging area. So it is never freed: the process
  // is about to end.
  if (given_up()) static_cast<void>(new std::vector<char>(std::move(staging_)));
  // Freeing waits for the other ranks. While an exception unwinds they may never come; the program
  // is about to end all of them.
  if (std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
}

Call MpiTransport::describe(const Request& request) const {
  Call call;
  call.collective = request.collective;
  call.reduction = request.reduction;
  call.peer = static_cast<uint32_t>(request.peer);
  const ConstTensorView view = request.in.empty() ? request.out : request.in;
  if (view.empty()) return call;
  call.dtype = view.dtype();
  call.elements = view.num_elements();
  if (!request.out.empty()) call.elements = std::max(call.elements, request.out.num_elements());
  if (!request.counts.are_equal()) call.elements = request.counts.total();
  if (node_memory_ == nullptr) return call;
  const auto buffer_at = [&](const void* data) -> Call::Buffer {
    const auto location = node_memory_->find(data);
    if (!location) return {};
    return {true, static_cast<uint32_t>(location->allocation), location->offset};
  };
  call.in = buffer_at(view.data());
  call.out = request.out.data() == view.data() ? call.in : buffer_at(request.out.data());
  return call;
}

Moved MpiTransport::execute(const Request& request) {
  check(!given_up(), "given up after an error");
  Operation operation(request, describe(request));
  if (request.collective == Collective::send || request.collective == Collective::recv) {
    send_or_recv(operation);
  } else {
    meet_and_execute(operation);
  }
  return operation.moved;
}

bool MpiTransport::is_registered(Collective collective) const {
  const bool writes = machines_.size() > 1 && collective == Collective::all_gather;
  for (size_t local_rank = 0; local_rank < machines_.here().size(); ++local_rank) {
    const Call& call = meeting_->call_of(local_rank);
    if (!call.in.registered || (writes && !call.out.registered)) return false;
  }
  return true;
}

void MpiTransport::meet_and_execute(Operation& operation) {
  if (meeting_) meeting_->enter(operation.call);
  const bool is_one_machine = meeting_ && machines_.size() == 1;
  if (!is_one_machine && (options_.check_collectives || options_.timeout_seconds > 0)) {
    compare_by_messages(operation.call);
  }
  const bool is_barrier = operation.call.collective == Collective::barrier;
  if (!meeting_ || (!is_barrier && !is_registered(operation.call.collective))) {
    return execute_by_messages(operation);
  }
  maybe_delay("shared: before buffers are read");
  if (is_one_machine) {
    execute_shared(operation);
  } else {
    execute_between_machines(operation);
  }
  meeting_->leave();
}

void MpiTransport::compare(const Request& request) {
  const Call call = describe(request);
  if (meeting_) meeting_->enter(call);
  if (!meeting_ || machines_.size() > 1) compare_by_messages(call);
}

TensorView MpiTransport::peer_memory(Call::Buffer Call::*buffer, size_t peer, size_t first,
                                     size_t count) const {
  const size_t local_rank = machines_.local_rank_of(peer);
  const Call& call = meeting_->call_of(local_rank);
  const auto& [registered, allocation, offset] = call.*buffer;
  const auto base =
      static_cast<char*>(node_memory_->at({allocation, offset}, node_ranks_[local_rank]));
  return TensorView(base + first * size_of(call.dtype), call.dtype, DeviceType::cpu, {count});
}

void MpiTransport::execute_shared(Operation& operation) {
  const Request& request = operation.request;
  const size_t n = request.in.num_elements();
  // Returns the same elements of every rank's buffer, in rank order.
  const auto slices = [&](size_t first, size_t count) {
    std::vector<TensorView> views;
    for (size_t r = 0; r < size(); ++r) views.push_back(peer_memory(&Call::in, r, first, count));
    return views;
  };
  // Each of the following functions moves bytes between ranks, and counts them where it does.
  const auto reduce_here = [&](TensorView out, size_t first, size_t count) {
    const std::vector<TensorView> views = slices(first, count);
    reduce_to_one(out, std::vector<ConstTensorView>(views.begin(), views.end()), request.reduction);
    operation.moved.bytes += (size() - 1) * out.num_bytes();  // read from each peer
  };
  const auto reduce_everywhere = [&](size_t first, size_t count) {
    const std::vector<TensorView> views = slices(first, count);
    reduce_to_all(views, request.reduction);
    operation.moved.bytes +=
        2 * (size() - 1) * views[0].num_bytes();  // read from each, written to each
  };
  const auto copy_from = [&](size_t peer, TensorView out, size_t first) {
    copy_in_thread(out, peer_memory(&Call::in, peer, first, out.num_elements()));
    operation.moved.bytes += out.num_bytes();
  };
  // Each rank visits its peers beginning with the next rank, so that not all read the same peer at
  // once.
  const auto for_peers = [&](auto body) {
    for (size_t step = 1; step < size(); ++step) body((rank() + step) % size());
  };
  switch (request.collective) {
    case Collective::all_reduce: {
      const Slice own = slice_of(n, size(), rank());
      return reduce_everywhere(own.first, own.count);
    }
    case Collective::reduce_scatter: {
      const size_t shard = request.out.num_elements();
      return reduce_here(request.out, rank() * shard, shard);
    }
    case Collective::all_gather: {
      const TensorView own = part(request.out, rank() * n, n);
      if (own.data() != request.in.data()) copy_in_thread(own, part(request.in, 0, n));
      return for_peers([&](size_t peer) { copy_from(peer, part(request.out, peer * n, n), 0); });
    }
    case Collective::broadcast:
      if (rank() != request.peer) copy_from(request.peer, part(request.out, 0, n), 0);
      return;
    case Collective::reduce:
      if (rank() == request.peer) reduce_here(request.out, 0, n);
      return;
    case Collective::all_to_all: {
      const PairCounts& counts = request.counts;
      const auto received = [&](size_t from) {
        return part(request.out, counts.begin_received(from, rank()), counts.of(from, rank()));
      };
      copy_in_thread(received(rank()), part(request.in, counts.begin_sent(rank(), rank()),
                                            counts.of(rank(), rank())));
      return for_peers(
          [&](size_t peer) { copy_from(peer, received(peer), counts.begin_sent(peer, rank())); });
    }
    case Collective::send:
    case Collective::recv:
    case Collective::barrier:
      return;
  }
}

}  // namespace ladder
