// The emulated NCCL itself: what it checks, groups, and calls that do not match.
#include <nccl.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/common/comm/ranks.h"

#if LADDER_CUDA_EMULATOR
#include "kernels/emulator/streams.h"
#include "tests/catch.h"
#endif

namespace ladder::testing {
namespace {

#if LADDER_CUDA_EMULATOR

// A communicator of all ranks, and memory.
struct Session {
  Session() {
    ncclUniqueId id = {};
    if (me == 0) REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    mpi_check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
    REQUIRE(ncclCommInitRank(&comm, size, id, me) == ncclSuccess);
  }
  ~Session() { ncclCommDestroy(comm); }
  float* floats(size_t n) { return ranks.take<float>(Place::device, n).as<float>(); }

  Ranks ranks{DeviceType::emulator};
  cudaStream_t stream = ranks.stream.native();
  int me = static_cast<int>(world().rank()), size = static_cast<int>(world().size());
  ncclComm_t comm = nullptr;
};

TEST_CASE("arguments that cannot be are refused on the spot") {
  Session s;
  float* const x = s.floats(100);
  const auto refused = [&](ncclResult_t result, const char* why) {
    CHECK(result == ncclInvalidArgument);
    CHECK_THAT(ncclGetLastError(nullptr), ContainsSubstring(why));
  };
  const auto all_reduce = [&](const void* in, void* out, size_t n, int type, ncclComm_t comm,
                              cudaStream_t stream) {
    return ncclAllReduce(in, out, n, static_cast<ncclDataType_t>(type), ncclSum, comm, stream);
  };
  std::vector<float> host(100);
  refused(all_reduce(nullptr, x, 100, ncclFloat32, s.comm, s.stream), "send buffer");
  refused(all_reduce(x, nullptr, 100, ncclFloat32, s.comm, s.stream), "receive buffer");
  refused(all_reduce(host.data(), x, 100, ncclFloat32, s.comm, s.stream), "send buffer");
  refused(all_reduce(x, x, Ranks::kArenaBytes, ncclFloat32, s.comm, s.stream), "send buffer");
  refused(all_reduce(x, x, 100, 99, s.comm, s.stream), "data type");
  refused(all_reduce(x, x, 100, ncclFloat32, nullptr, s.stream), "communicator is null");
  int no_stream = 0;
  refused(all_reduce(x, x, 100, ncclFloat32, s.comm, reinterpret_cast<cudaStream_t>(&no_stream)),
          "no such stream");
  refused(ncclBroadcast(x, x, 100, ncclFloat32, s.size, s.comm, s.stream), "no such rank");
  refused(ncclSend(x, 100, ncclFloat32, -1, s.comm, s.stream), "no such rank");
  refused(ncclGetUniqueId(nullptr), "null");
  refused(ncclCommRegister(s.comm, host.data(), 400, reinterpret_cast<void**>(&host)),
          "not device memory");
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

TEST_CASE("an error within a group is returned at its end, and nothing of it runs") {
  Session s;
  float* const x = s.floats(100);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclAllReduce(x, x, 100, ncclFloat32, ncclSum, s.comm, s.stream) == ncclSuccess);
  CHECK(ncclSend(nullptr, 100, ncclFloat32, 0, s.comm, s.stream) == ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  // The next group is not affected.
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
}

TEST_CASE("a communicator is not aborted before the group ends, nor if a call of it has failed") {
  ncclUniqueId id = {};
  for (bool fails : {true, false}) {
    ncclComm_t comm = nullptr;
    Ranks ranks(DeviceType::emulator);
    const int me = static_cast<int>(world().rank());
    if (me == 0) REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    mpi_check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
    REQUIRE(ncclCommInitRank(&comm, 4, id, me) == ncclSuccess);
    const auto peer_has_aborted = [&] {
      mpi_check(MPI_Barrier(MPI_COMM_WORLD));
      ncclResult_t error = ncclSuccess;
      REQUIRE(ncclCommGetAsyncError(comm, &error) == ncclSuccess);
      mpi_check(MPI_Barrier(MPI_COMM_WORLD));
      return error == ncclRemoteError;
    };
    REQUIRE(ncclGroupStart() == ncclSuccess);
    if (fails) {
      CHECK(ncclSend(nullptr, 1, ncclFloat32, 0, comm, ranks.stream.native()) ==
            ncclInvalidArgument);
    }
    if (me == 2) CHECK(ncclCommAbort(comm) == ncclSuccess);
    CHECK(!peer_has_aborted());
    CHECK(ncclGroupEnd() == (fails ? ncclInvalidArgument : ncclSuccess));
    if (fails) {
      CHECK(!peer_has_aborted());
      CHECK(ncclCommDestroy(comm) == ncclSuccess);
      continue;
    }
    mpi_check(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 2) continue;
    ncclResult_t error = ncclSuccess;
    while (error == ncclSuccess) REQUIRE(ncclCommGetAsyncError(comm, &error) == ncclSuccess);
    CHECK(error == ncclRemoteError);
    CHECK(ncclCommAbort(comm) == ncclSuccess);
  }
}

TEST_CASE("calls that differ between ranks are an error on every rank") {
  Session s;
  float* const x = s.floats(1000);
  const bool odd = s.me == 2;
  const auto mismatch = [&](ncclResult_t result, const std::string& usual,
                            const std::string& other) {
    CHECK(result == ncclInvalidUsage);
    CHECK_THAT(
        ncclGetLastError(nullptr),
        ContainsSubstring(concat("rank ", s.me, " calls ", odd ? other : usual, " elements, rank ",
                                 odd ? 0 : 2, " ", odd ? usual : other)));
  };
  mismatch(ncclAllReduce(x, x, odd ? 101 : 100, ncclFloat32, ncclSum, s.comm, s.stream),
           "AllReduce of 100", "AllReduce of 101");
  mismatch(ncclBroadcast(x, x, 100, ncclFloat32, odd ? 1 : 0, s.comm, s.stream), "Broadcast of 100",
           "Broadcast of 100");
  mismatch(odd ? ncclBroadcast(x, x, 7, ncclFloat32, 0, s.comm, s.stream)
               : ncclReduce(x, x, 8, ncclFloat32, ncclSum, 0, s.comm, s.stream),
           "Reduce of 8", "Broadcast of 7");
}

TEST_CASE(
    "buffers that lie elsewhere on some rank are refused: in a window, or registered at all") {
  Session s;
  void* x = nullptr;
  constexpr size_t kWindow = 8192;
  REQUIRE(ncclMemAlloc(&x, kWindow) == ncclSuccess);
  ncclWindow_t window = nullptr;
  void* handle = nullptr;
  const bool odd = s.me == 2;
  const auto all_reduce = [&](size_t skipped) {
    float* const from = static_cast<float*>(x) + skipped;
    return ncclAllReduce(from, from, 100, ncclFloat32, ncclSum, s.comm, s.stream);
  };
  const auto refuses = [&](ncclResult_t result) {
    CHECK(result == ncclInvalidUsage);
    CHECK_THAT(ncclGetLastError(nullptr), ContainsSubstring(concat("AllReduce of 100 elements: the "
                                                                   "buffers of ranks ",
                                                                   s.me, " and ", odd ? 0 : 2)));
  };
  CHECK(all_reduce(odd) == ncclSuccess);  // not registered
  REQUIRE(ncclCommRegister(s.comm, x, kWindow, &handle) == ncclSuccess);
  CHECK(all_reduce(odd) == ncclSuccess);
  s.ranks.stream.synchronize();
  if (odd) REQUIRE(ncclCommDeregister(s.comm, handle) == ncclSuccess);
  refuses(all_reduce(0));
  if (!odd) REQUIRE(ncclCommDeregister(s.comm, handle) == ncclSuccess);
  const auto open = [&](size_t bytes) {
    return ncclCommWindowRegister(s.comm, x, bytes, &window, NCCL_WIN_COLL_SYMMETRIC);
  };
  CHECK(open(odd ? kWindow : 4096) == ncclInvalidUsage);
  CHECK_THAT(ncclGetLastError(nullptr), ContainsSubstring("windows differ in size"));
  REQUIRE(open(kWindow) == ncclSuccess);
  CHECK(all_reduce(7) == ncclSuccess);
  refuses(all_reduce(odd ? 8 : 7));
  s.ranks.stream.synchronize();
  CHECK(ncclCommWindowDeregister(s.comm, window) == ncclSuccess);
  CHECK(ncclMemFree(x) == ncclSuccess);
}

TEST_CASE("a message of another size than expected is an error, and the next one arrives") {
  Session s;
  float* const x = s.floats(100);
  const int peer = s.me ^ 1;
  const bool sends = s.me % 2 == 0;
  for (size_t sent : {50, 60, 70}) {
    const ncclResult_t result = sends ? ncclSend(x, sent, ncclFloat32, peer, s.comm, s.stream)
                                      : ncclRecv(x, 60, ncclFloat32, peer, s.comm, s.stream);
    CHECK(result == (sends || sent == 60 ? ncclSuccess : ncclInvalidUsage));
    if (result != ncclSuccess) {
      CHECK_THAT(ncclGetLastError(nullptr),
                 ContainsSubstring(
                     concat("Recv of 240 bytes from rank ", peer, ", which has sent ", 4 * sent)));
    }
  }
}

TEST_CASE("sends and receives of one group need no order, also to oneself and nested") {
  Session s;
  constexpr size_t kElements = 100'000;  // more than MPI buffers
  Tensor out(s.ranks.device_memory, Category::communication, DType::fp32, {4 * kElements});
  Tensor in(s.ranks.device_memory, Category::communication, DType::fp32, {4 * kElements});
  fill<float>(out, [&](size_t i) { return value(static_cast<size_t>(s.me), i); });
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < s.size; ++r) {
    const size_t at = static_cast<size_t>(r) * kElements;
    REQUIRE(ncclGroupStart() == ncclSuccess);
    REQUIRE(ncclSend(out.view().as<float>() + at, kElements, ncclFloat32, r, s.comm, s.stream) ==
            ncclSuccess);
    REQUIRE(ncclRecv(in.view().as<float>() + at, kElements, ncclFloat32, r, s.comm, s.stream) ==
            ncclSuccess);
    REQUIRE(ncclGroupEnd() == ncclSuccess);
  }
  require_elements<float>(in, [](size_t) { return 0; });  // nothing yet
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  s.ranks.stream.synchronize();
  require_elements<float>(in, [&](size_t i) {
    return value(i / kElements, static_cast<size_t>(s.me) * kElements + i % kElements);
  });
}

// As long as it lives; the last of a test's variables.
struct Deferred {
  Deferred() { emulator::set_stream_order(emulator::StreamOrder::deferred); }
  ~Deferred() { emulator::set_stream_order(before); }
  emulator::StreamOrder before = emulator::stream_order();
};

TEST_CASE("deferred: a result is stored when its stream comes to it") {
  Session s;
  const Stream reader(DeviceType::emulator);
  const TensorView x = s.ranks.take<float>(Place::device, 100);
  float early = 0, late = 0;
  fill<float>(x, [&](size_t) { return 1; });
  const auto read = [&](float& to, cudaStream_t stream) {
    REQUIRE(cudaMemcpyAsync(&to, x.data(), 4, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  };
  const Deferred deferred;
  REQUIRE(ncclAllReduce(x.data(), x.data(), 100, ncclFloat32, ncclSum, s.comm, s.stream) ==
          ncclSuccess);
  read(early, reader.native());
  read(late, s.stream);
  CHECK(early == 1);
  CHECK(late == 4);
}

TEST_CASE("deferred: memory that an operation still needs") {
  Session s;
  void* x = nullptr;
  void* handle = nullptr;
  REQUIRE(ncclMemAlloc(&x, 400) == ncclSuccess);
  REQUIRE(cudaMemset(x, 0, 400) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(ncclCommRegister(s.comm, x, 400, &handle) == ncclSuccess);
  const Deferred deferred;
  REQUIRE(ncclAllReduce(x, x, 100, ncclFloat32, ncclSum, s.comm, s.stream) == ncclSuccess);
  SECTION("is written") {
    const Stream other(DeviceType::emulator);
    REQUIRE(cudaMemsetAsync(x, 1, 4, other.native()) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(other.native()) == cudaSuccess);
    CHECK_THROWS_WITH(cudaStreamSynchronize(s.stream),
                      "NCCL's AllReduce of 100 elements: what it sends was written before it had "
                      "ended");
    CHECK(ncclCommDeregister(s.comm, handle) == ncclSuccess);
  }
  SECTION("is deregistered") {
    CHECK(ncclCommDeregister(s.comm, handle) == ncclSuccess);
    CHECK_THROWS_WITH(cudaStreamSynchronize(s.stream),
                      "NCCL's AllReduce of 100 elements: a buffer was deregistered before it had "
                      "ended");
  }
  SECTION("is freed") {
    CHECK(ncclMemFree(x) == ncclSuccess);
    CHECK_THROWS_WITH(cudaStreamSynchronize(s.stream),
                      "NCCL's AllReduce of 100 elements: a buffer was freed before it had ended");
    return;
  }
  CHECK(ncclMemFree(x) == ncclSuccess);
}

TEST_CASE("two processes that claim the same rank are refused") {
  ncclUniqueId id = {};
  const int me = static_cast<int>(world().rank());
  if (me == 0) REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  mpi_check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, 4, id, me == 3 ? 1 : me) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 4, id, 4) == ncclInvalidArgument);
}

#else

TEST_CASE("the CUDA build has NCCL itself") { WARN("skipped: no emulated NCCL here"); }

#endif

}  // namespace
}  // namespace ladder::testing
