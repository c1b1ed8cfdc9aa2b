// Streams whose work is deferred: when it runs, in which order, and what a missing event does.
#include <cublas_v2.h>

#include <string>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/emulator/streams.h"
#include "tests/catch.h"
#include "tests/kernels/emulator/support.h"

namespace ladder {
namespace {

using cuda::launch;
using emulator::set_stream_order;
using emulator::StreamOrder;

// As long as it lives streams are deferred. At first none is early; from the first wait on one may
// be, so that what must not have run is looked at before. The last of a test's variables: when it
// is destroyed everything runs, which needs the others.
struct Deferred {
  Deferred() { set_stream_order(StreamOrder::deferred); }
  ~Deferred() { set_stream_order(StreamOrder::immediate); }
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
};

struct Stream {
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    REQUIRE(cudaStreamCreateWithFlags(&handle, flags) == cudaSuccess);
  }
  ~Stream() { cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return handle; }
  void synchronize() const { REQUIRE(cudaStreamSynchronize(handle) == cudaSuccess); }
  cudaStream_t handle = nullptr;
};

struct Event {
  Event() { REQUIRE(cudaEventCreateWithFlags(&handle, cudaEventDefault) == cudaSuccess); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return handle; }
  void record(cudaStream_t stream) const {
    REQUIRE(cudaEventRecord(handle, stream) == cudaSuccess);
  }
  void hold_up(cudaStream_t stream) const {
    REQUIRE(cudaStreamWaitEvent(stream, handle, 0) == cudaSuccess);
  }
  cudaEvent_t handle = nullptr;
};

// One number in pinned host memory, which kernels reach and the host may look at any time.
struct Pinned {
  explicit Pinned(int value = 0) {
    REQUIRE(cudaMallocHost(&number, sizeof *number) == cudaSuccess);
    *number = value;
  }
  ~Pinned() { cudaFreeHost(number); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  int* number = nullptr;
};

__global__ void set(int* to, int value) { *to = value; }
__global__ void take(int* to, const int* from) { *to = *from; }

void set_on(cudaStream_t stream, int* to, int value) {
  launch<set>(stream, {dim3(1), dim3(1)}, to, value);
}
void take_on(cudaStream_t stream, int* to, const int* from) {
  launch<take>(stream, {dim3(1), dim3(1)}, to, from);
}

TEST_CASE("a stream runs what it was given when the host waits for it, in order") {
  const Stream stream;
  const Event event;
  Pinned x, y;
  const Deferred deferred;
  set_on(stream, x.number, 1);
  take_on(stream, y.number, x.number);
  event.record(stream);
  set_on(stream, x.number, 2);
  CHECK(*x.number == 0);
  CHECK(*y.number == 0);
  REQUIRE(cudaEventSynchronize(event) == cudaSuccess);
  CHECK(*y.number == 1);
  stream.synchronize();
  CHECK(*x.number == 2);
}

TEST_CASE("copies and sets read and write memory when their stream comes to them") {
  const Stream stream;
  const DeviceArray<int> a(1), b(1);
  const bool pinned = GENERATE(true, false);
  Pinned to_pinned(-1), from_pinned;
  int to_pageable = -1, from_pageable = 0;
  int* const to = pinned ? to_pinned.number : &to_pageable;
  int* const from = pinned ? from_pinned.number : &from_pageable;
  const Deferred deferred;
  REQUIRE(cudaMemcpyAsync(a.data(), from, 4, cudaMemcpyHostToDevice, stream) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(b.data(), a.data(), 4, cudaMemcpyDeviceToDevice, stream) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(a.data(), 1, 4, stream) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(to, b.data(), 4, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
  CHECK(*to == -1);
  *from = 5;  // too early: the copy has not read it
  stream.synchronize();
  CHECK(*to == 5);
  CHECK(a.values() == std::vector<int>{0x01010101});
}

TEST_CASE("calls that CUDA calls synchronous return when they have run") {
  const DeviceArray<int> a(1), b(1);
  int host = 3, back = 0, again = 0;
  const Deferred deferred;
  REQUIRE(cudaMemcpy(a.data(), &host, 4, cudaMemcpyHostToDevice) == cudaSuccess);
  host = 4;
  REQUIRE(cudaMemcpy(b.data(), a.data(), 4, cudaMemcpyDeviceToDevice) == cudaSuccess);
  REQUIRE(cudaMemset(a.data(), 0, 4) == cudaSuccess);  // not this one: a.values() waits for it
  REQUIRE(cudaMemcpy(&back, b.data(), 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(back == 3);
  REQUIRE(cudaMemcpyAsync(&again, &back, 4, cudaMemcpyHostToHost) == cudaSuccess);
  CHECK(again == 3);
  CHECK(a.values() == std::vector<int>{0});
}

TEST_CASE(
    "a wait is for the last record before it; of an event that was never recorded it is none") {
  const Stream first, second;
  const Event event, never;
  Pinned x, seen;
  const Deferred deferred;
  never.hold_up(second);
  set_on(first, x.number, 1);
  event.record(first);
  event.hold_up(second);
  set_on(first, x.number, 2);
  event.record(first);  // does not move the wait
  take_on(second, seen.number, x.number);
  CHECK(cudaEventQuery(never) == cudaSuccess);
  second.synchronize();
  CHECK(*seen.number == 1);
}

constexpr int kRounds = 3000;  // among which many streams are drawn to be early

// How often each order came up in which two streams, of which `ordered` says whether an event
// orders them, can run two things. The host waits for the first stream, then for the second.
struct Orders {
  int first_before = 0, second_before = 0;
};
Orders orders_of_two_streams(bool ordered) {
  const Stream first, second;
  const Event event;
  Pinned x, seen;
  Orders orders;
  const Deferred deferred;
  for (int round = 0; round < kRounds; ++round) {
    *x.number = 0;
    set_on(first, x.number, 1);
    event.record(first);
    if (ordered) event.hold_up(second);
    take_on(second, seen.number, x.number);
    (round % 2 == 0 ? second : first).synchronize();
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    (*seen.number == 1 ? orders.first_before : orders.second_before) += 1;
  }
  return orders;
}

TEST_CASE("without an event both orders come up, with one its order alone") {
  const Orders free = orders_of_two_streams(false), ordered = orders_of_two_streams(true);
  CHECK(free.first_before >= kRounds / 10);
  CHECK(free.second_before >= kRounds / 10);
  CHECK(ordered.first_before == kRounds);
}

// Half of the time none is early, else one of three.
TEST_CASE("of what nobody waits for nothing runs, but for the early stream") {
  const Stream waited_for, other;
  Pinned x, y;
  const Deferred deferred;
  int early = 0;
  for (int round = 0; round < kRounds; ++round) {
    *y.number = 0;
    set_on(waited_for, x.number, 1);
    set_on(other, y.number, 1);
    waited_for.synchronize();
    early += *y.number;
    other.synchronize();
    CHECK(*y.number == 1);
  }
  CHECK(early > kRounds / 50);
  CHECK(early < kRounds / 2);
}

TEST_CASE("the default stream and streams that are not non-blocking wait for each other") {
  const Stream blocking(cudaStreamDefault), free(cudaStreamNonBlocking);
  Pinned x, seen, free_seen;
  const bool default_first = GENERATE(true, false);
  const Deferred deferred;
  cudaStream_t const first = default_first ? nullptr : blocking.handle;
  cudaStream_t const second = default_first ? blocking.handle : nullptr;
  set_on(first, x.number, 1);
  take_on(free, free_seen.number, x.number);
  take_on(second, seen.number, x.number);
  REQUIRE(cudaStreamSynchronize(free) == cudaSuccess);
  CHECK(*free_seen.number == 0);
  REQUIRE(cudaStreamSynchronize(second) == cudaSuccess);
  CHECK(*seen.number == 1);
}

TEST_CASE("a question is answered with no until all has run, and in the end with yes") {
  const Stream stream;
  const Event event;
  Pinned x;
  const Deferred deferred;
  for (int i = 1; i <= 3; ++i) set_on(stream, x.number, i);
  event.record(stream);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  int questions = 0;
  while (cudaEventQuery(event) == cudaErrorNotReady) ++questions;
  CHECK(questions == 3);
  CHECK(*x.number == 3);
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorNotReady);
}

// How often, over some seeds, y takes what x holds after it was set on another stream.
size_t times_taken_after(bool ordered) {
  size_t count = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const WithSeed with_seed(seed);
    const Stream first, second;
    const Event event;
    Pinned x, y;
    set_stream_order(StreamOrder::interleaved);
    set_on(first, x.number, 1);
    event.record(first);
    if (ordered) event.hold_up(second);
    take_on(second, y.number, x.number);
    second.synchronize();
    count += *y.number == 1;
    set_stream_order(StreamOrder::immediate);
  }
  return count;
}

TEST_CASE("interleaved streams run in both orders, and those that an event orders in one") {
  const size_t count = times_taken_after(false);
  CHECK(count > 5);
  CHECK(count < 38);
  CHECK(times_taken_after(false) == count);  // the same seeds, the same orders
  CHECK(times_taken_after(true) == 40);
}

TEST_CASE("the time between two events is known when the stream has passed both") {
  const Stream stream;
  const Event events[3];
  float ms = 0;
  const Deferred deferred;
  for (const Event& event : events) event.record(stream);
  CHECK(cudaEventElapsedTime(&ms, events[0], events[1]) == cudaErrorNotReady);
  cudaGetLastError();
  stream.synchronize();
  for (size_t i = 0; i < 2; ++i) {
    REQUIRE(cudaEventElapsedTime(&ms, events[i], events[i + 1]) == cudaSuccess);
    CHECK(ms >= 0);
  }
}

TEST_CASE("what a destroyed stream was given still runs") {
  Pinned x, y;
  const Event event;
  const Deferred deferred;
  {
    const Stream first, second;
    set_on(first, x.number, 1);
    event.record(first);
    set_on(second, y.number, 2);
  }
  CHECK(*x.number == 0);
  const Stream third;
  event.hold_up(third);
  third.synchronize();
  CHECK(*x.number == 1);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(*y.number == 2);
}

TEST_CASE("freeing device memory waits for everything") {
  const Stream stream;
  Pinned x;
  const Deferred deferred;
  {
    const DeviceArray<int> memory(1);
    set_on(stream, memory.data(), 7);
    take_on(stream, x.number, memory.data());
  }
  CHECK(*x.number == 7);
}

TEST_CASE("freeing pinned memory waits for nothing") {
  const Stream stream;
  const DeviceArray<int> memory(1);
  const Deferred deferred;
  {
    const Pinned freed;
    REQUIRE(cudaMemcpyAsync(memory.data(), freed.number, 4, cudaMemcpyDefault, stream) ==
            cudaSuccess);
  }
  CHECK_THROWS_WITH(
      cudaStreamSynchronize(stream),
      ContainsSubstring("cudaMemcpyAsync: its memory was freed before its stream came to it"));
}

TEST_CASE("what is read forces what may write it, and what later work waits for") {
  const Stream stream, other;
  const Event event;
  const DeviceArray<int> a(1), b(1);
  Pinned x;
  bool wrote_a = false, wrote_b = false, unknown = false;
  const Deferred deferred;
  set_on(other, x.number, 1);
  event.record(other);
  emulator::give(stream, [&] { unknown = true; });
  emulator::give(
      stream, [&] { wrote_a = true; }, emulator::Range{a.data(), 4});
  emulator::give(
      stream, [&] { wrote_b = true; }, emulator::Range{b.data(), 4});
  event.hold_up(stream);
  emulator::run_for(stream, {a.data() + 1, 4});  // beside a
  CHECK(unknown);
  CHECK_FALSE(wrote_a);
  CHECK(*x.number == 1);
  emulator::run_for(stream, {a.data(), 1});
  CHECK(wrote_a);
  CHECK_FALSE(wrote_b);
  stream.synchronize();
  CHECK(wrote_b);
}

// The event's stream itself waits for the stream that is asked.
TEST_CASE("what is read may depend on the stream's own work by way of another stream") {
  const Stream stream, other;
  const Event first, second;
  const DeviceArray<int> a(1);
  Pinned x, seen;
  const Deferred deferred;
  emulator::give(
      stream, [&] { *x.number = 1; }, emulator::Range{a.data(), 4});
  first.record(stream);
  first.hold_up(other);
  take_on(other, seen.number, x.number);
  second.record(other);
  second.hold_up(stream);
  emulator::run_for(stream, {});
  CHECK(*seen.number == 1);
}

__global__ void fails() { throw std::runtime_error("on purpose"); }

TEST_CASE("what a kernel does wrong is thrown where it runs, and what was to follow is dropped") {
  const Stream stream, other;
  Pinned x, y;
  const Deferred deferred;
  launch<fails>(stream, {dim3(1), dim3(1)});
  set_on(stream, x.number, 1);
  set_on(other, y.number, 1);
  CHECK_THROWS_WITH(cudaStreamSynchronize(stream), ContainsSubstring("on purpose"));
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(*x.number == 0);
  CHECK(*y.number == 0);
  set_on(stream, x.number, 2);
  stream.synchronize();
  CHECK(*x.number == 2);
}

TEST_CASE("a product of cuBLAS runs on the stream of its handle, with the factors of the call") {
  const Stream stream;
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS);
  const DeviceArray<char> workspace(256);
  REQUIRE(cublasSetWorkspace(handle, workspace.data(), 256) == CUBLAS_STATUS_SUCCESS);
  const DeviceArray<float> a(std::vector<float>{3}), b(std::vector<float>{5}), c(1);
  Pinned seen(-1);
  float alpha = 2, beta = 0;
  const Deferred deferred;
  const auto multiply = [&] {
    return cublasGemmEx_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &alpha, a.data(), CUDA_R_32F,
                           1, b.data(), CUDA_R_32F, 1, &beta, c.data(), CUDA_R_32F, 1,
                           CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  };
  REQUIRE(multiply() == CUBLAS_STATUS_SUCCESS);
  alpha = 100;
  REQUIRE(cudaMemcpyAsync(seen.number, c.data(), 4, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
  CHECK(*seen.number == -1);
  stream.synchronize();
  CHECK(c.values() == std::vector<float>{30});
  REQUIRE(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
}

}  // namespace
}  // namespace ladder
