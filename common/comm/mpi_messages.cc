// The operations of MpiCommunicator between ranks that share no memory, by send and recv.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "common/comm/mpi_communicator.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"

namespace ladder {
namespace {

constexpr int kTag = 1;

int byte_count(size_t elements, DType dtype) { return static_cast<int>(elements * size_of(dtype)); }

// Calls body(first, count) for pieces that cover [0, n).
template <class Body>
void for_pieces(size_t n, size_t piece, Body body) {
  for (size_t first = 0; first < n; first += piece) body(first, std::min(piece, n - first));
}

// What a thread does between two looks for messages, which move only while somebody looks. At first
// nothing: most come soon. Then it lets others run. Who has waited for longer than the copying of a
// piece takes waits for a rank that computes, for as long as that may be, and perhaps in the
// background: yielding would go on taking every second slice of time from a thread that computes
// here. What has taken 1 ms is not made much longer by looking every 50 us.
class Patience {
 public:
  // Returns the seconds since the first rounds.
  double pause() {
    constexpr int kSpins = 100;
    constexpr double kYieldSeconds = 1e-3;
    if (++rounds_ <= kSpins) return 0;
    if (rounds_ == kSpins + 1) begin_ = std::chrono::steady_clock::now();
    const double waited = seconds_since(begin_);
    if (waited < kYieldSeconds) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return waited;
  }

 private:
  size_t rounds_ = 0;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace

TensorView MpiCommunicator::staging(const Request& request) {
  const size_t elements = staging_elements(request.collective, size(), request.in.num_elements(),
                                           options_.piece_elements);
  const DType dtype = request.out.dtype();
  const size_t bytes = elements * size_of(dtype);
  const TensorView area = staging_area();
  if (!area.empty() && area.num_bytes() >= bytes) {
    return TensorView(area.data(), dtype, DeviceType::cpu, {elements});
  }
  staging_.resize(std::max(staging_.size(), bytes));
  return TensorView(staging_.data(), dtype, DeviceType::cpu, {elements});
}

// send(r) and recv(r) say what goes to and comes from rank r; views may be empty.
template <class SendAt, class RecvAt>
void MpiCommunicator::exchange(DType dtype, SendAt send, RecvAt recv) {
  std::vector<MPI_Request> requests;
  const auto start = [&](auto function, auto view, size_t peer) {
    if (view.num_elements() == 0) return;
    MPI_Request& request = requests.emplace_back();
    mpi_check(function(view.data(), byte_count(view.num_elements(), dtype), MPI_BYTE,
                       static_cast<int>(peer), kTag, comm_, &request));
  };
  for (size_t r = 0; r < size(); ++r) {
    if (r != rank()) start(MPI_Irecv, recv(r), r);
  }
  for (size_t step = 1; step < size(); ++step) {
    const size_t r = (rank() + step) % size();
    start(MPI_Isend, send(r), r);
  }
  finish(requests);
}

void MpiCommunicator::finish(std::span<MPI_Request> requests, MPI_Status* statuses,
                             const Request* transfer) {
  const int count = static_cast<int>(requests.size());
  int done = 0;
  Patience patience;
  while (true) {
    const int result = MPI_Testall(count, requests.data(), &done, statuses);
    if (result == MPI_ERR_IN_STATUS && statuses != MPI_STATUSES_IGNORE) {
      mpi_check(statuses[0].MPI_ERROR);
    }
    mpi_check(result);
    if (done) return;
    check(!given_up(), "given up after an error");
    const double waited = patience.pause();
    if (options_.timeout_seconds == 0 || waited < options_.timeout_seconds) continue;
    const std::string what =
        transfer == nullptr ? "messages of a collective"
                            : concat(name_of(transfer->collective),
                                     transfer->collective == Collective::send ? " to" : " from",
                                     " rank ", transfer->peer, " of the group");
    fail(concat(what, ": not done after ", options_.timeout_seconds, " s"));
  }
}

void MpiCommunicator::execute_by_messages(const Request& request) {
  const size_t piece = options_.piece_elements, n = request.in.num_elements();
  const int peer = static_cast<int>(request.peer);
  MPI_Request started;
  switch (request.collective) {
    case Collective::all_reduce:
      return all_reduce_by_messages(request);
    case Collective::reduce_scatter:
      return reduce_scatter_by_messages(request);
    case Collective::all_gather:
      return all_gather_by_messages(request.out, request.in);
    case Collective::broadcast:
      return for_pieces(n, piece, [&](size_t first, size_t count) {
        mpi_check(MPI_Ibcast(part(request.out, first, count).data(),
                             byte_count(count, request.out.dtype()), MPI_BYTE, peer, comm_,
                             &started));
        finish({&started, 1});
      });
    case Collective::reduce:
      return reduce_by_messages(request);
    case Collective::all_to_all: {
      const size_t each = n / size();
      copy_in_thread(part(request.out, rank() * each, each), part(request.in, rank() * each, each));
      return for_pieces(each, piece, [&](size_t first, size_t count) {
        exchange(
            request.in.dtype(), [&](size_t r) { return part(request.in, r * each + first, count); },
            [&](size_t r) { return part(request.out, r * each + first, count); });
      });
    }
    case Collective::send:
      return for_pieces(n, piece, [&](size_t first, size_t count) {
        const auto start = options_.synchronous_sends ? MPI_Issend : MPI_Isend;
        mpi_check(start(part(request.in, first, count).data(),
                        byte_count(count, request.in.dtype()), MPI_BYTE, peer, kTag, comm_,
                        &started));
        finish({&started, 1}, MPI_STATUSES_IGNORE, &request);
      });
    case Collective::recv:
      return recv_by_messages(request);
    case Collective::barrier:
      mpi_check(MPI_Ibarrier(comm_, &started));
      return finish({&started, 1});
  }
}

void MpiCommunicator::recv_by_messages(const Request& request) {
  const size_t n = request.out.num_elements(), bytes = size_of(request.out.dtype());
  for_pieces(n, options_.piece_elements, [&](size_t first, size_t count) {
    MPI_Request started;
    mpi_check(MPI_Irecv(part(request.out, first, count).data(),
                        byte_count(count, request.out.dtype()), MPI_BYTE,
                        static_cast<int>(request.peer), kTag, comm_, &started));
    MPI_Status status;
    finish({&started, 1}, &status, &request);
    int received = 0;
    mpi_check(MPI_Get_count(&status, MPI_BYTE, &received));
    if (static_cast<size_t>(received) == count * bytes) return;
    fail(concat("recv of ", n, " ", name_of(request.out.dtype()), " from rank ", request.peer,
                ": the message has only ", first + static_cast<size_t>(received) / bytes));
  });
}

// Rank r collects slice r of a piece from all, sums it in rank order, and sends the sum to all.
void MpiCommunicator::all_reduce_by_messages(const Request& request) {
  const TensorView area = staging(request);
  for_pieces(request.out.num_elements(), options_.piece_elements, [&](size_t begin, size_t count) {
    const TensorView piece = part(request.out, begin, count);
    const size_t each = (count + size() - 1) / size();
    const auto slice = [&](size_t r) {
      const size_t first = std::min(count, r * each);
      return part(piece, first, std::min(each, count - first));
    };
    const TensorView own = slice(rank());
    const auto staged = [&](size_t r) { return part(area, r * each, own.num_elements()); };
    exchange(piece.dtype(), slice, staged);
    if (own.num_elements() > 0) {
      std::vector<ConstTensorView> views;
      for (size_t r = 0; r < size(); ++r) views.push_back(r == rank() ? own : staged(r));
      reduce_to_one(own, views, request.reduction);
    }
    exchange(
        piece.dtype(), [&](size_t) { return own; }, slice);
  });
}

void MpiCommunicator::reduce_scatter_by_messages(const Request& request) {
  const size_t shard = request.out.num_elements();
  const TensorView area = staging(request);
  for_pieces(shard, piece_of_a_rank(), [&](size_t first, size_t count) {
    const auto mine = [&](size_t r) { return part(request.in, r * shard + first, count); };
    const auto staged = [&](size_t r) { return part(area, r * count, count); };
    exchange(area.dtype(), mine, staged);
    std::vector<ConstTensorView> views;
    for (size_t r = 0; r < size(); ++r) {
      views.push_back(r == rank() ? mine(r) : ConstTensorView(staged(r)));
    }
    reduce_to_one(part(request.out, first, count), views, request.reduction);
  });
}

void MpiCommunicator::all_gather_by_messages(TensorView buffer, ConstTensorView shard) {
  const size_t n = shard.num_elements();
  const TensorView own = part(buffer, rank() * n, n);
  if (own.data() != shard.data()) copy_in_thread(own, part(shard, 0, n));
  for_pieces(n, options_.piece_elements, [&](size_t first, size_t count) {
    exchange(
        buffer.dtype(), [&](size_t) { return part(own, first, count); },
        [&](size_t r) { return part(buffer, r * n + first, count); });
  });
}

void MpiCommunicator::reduce_by_messages(const Request& request) {
  const bool is_root = rank() == request.peer;
  const TensorView area = is_root ? staging(request) : TensorView();
  for_pieces(request.in.num_elements(), piece_of_a_rank(), [&](size_t first, size_t count) {
    const TensorView own = part(request.out, first, count), nothing = part(own, 0, 0);
    const auto staged = [&](size_t r) { return part(area, r * count, count); };
    exchange(
        own.dtype(), [&](size_t r) { return r == request.peer ? own : nothing; },
        [&](size_t r) { return is_root ? staged(r) : nothing; });
    if (!is_root) return;
    std::vector<ConstTensorView> views;
    for (size_t r = 0; r < size(); ++r) views.push_back(r == rank() ? own : staged(r));
    reduce_to_one(own, views, request.reduction);
  });
}

}  // namespace ladder
