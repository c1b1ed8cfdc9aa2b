// Host code that touches pinned memory while a copy may still be using it. The checker is linked.
#include <functional>
#include <string>

#include "kernels/emulator/streams.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/kernels/emulator/endings.h"
#include "tests/kernels/emulator/support.h"

namespace ladder {
namespace {

using emulator::StreamOrder;

// Two numbers in pinned memory and two on the device, a stream and an event.
struct Numbers {
  Numbers() {
    if (cudaMallocHost(&host, 8) != cudaSuccess || cudaMalloc(&device, 8) != cudaSuccess) _exit(3);
    cudaMemset(device, 0, 8);
    cudaDeviceSynchronize();
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  void upload() {
    cudaMemcpyAsync(device, host, 4, cudaMemcpyHostToDevice, stream);
    cudaEventRecord(event, stream);
  }
  void download() {
    cudaMemcpyAsync(host, device, 4, cudaMemcpyDeviceToHost, stream);
    cudaEventRecord(event, stream);
  }
  void read() { sum += *const_cast<volatile int*>(host); }
  void write() { *const_cast<volatile int*>(host) = 1; }

  int *host = nullptr, *device = nullptr;
  int sum = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
};

using Steps = std::function<void(Numbers&)>;

// Returns what a child process says that takes the steps; it must die of a fault if it says
// anything.
std::string words_of(const Steps& steps) {
  const auto order =
      GENERATE(StreamOrder::immediate, StreamOrder::deferred, StreamOrder::interleaved);
  const Ending ending = ending_of([&] {
    emulator::set_stream_order(order);
    Numbers numbers;
    steps(numbers);
  });
  CAPTURE(ending.words);
  CHECK(died_of_fault(ending) == !ending.words.empty());
  CHECK((ending.words.empty() ? ending.status == 0 : true));
  return ending.words;
}

TEST_CASE("the host reads what a copy writes, and has waited for nothing") {
  const std::string words = words_of([](Numbers& n) {
    n.download();
    n.read();
  });
  CHECK_THAT(words, StartsWith("CUDA emulator: host code reads pinned memory that a copy "
                               "writes: wait for its stream or an event first, at 0x"));
}

TEST_CASE("the host fills a buffer again out of which a copy still reads") {
  const std::string words = words_of([](Numbers& n) {
    n.upload();
    n.write();
  });
  CHECK_THAT(words, StartsWith("CUDA emulator: host code writes pinned memory that a copy "
                               "reads: wait for its stream or an event first, at 0x"));
}

TEST_CASE("a wait for an event before the copy is none") {
  const std::string words = words_of([](Numbers& n) {
    cudaEventRecord(n.event, n.stream);
    cudaMemcpyAsync(n.host, n.device, 4, cudaMemcpyDeviceToHost, n.stream);
    cudaEventSynchronize(n.event);
    n.read();
  });
  CHECK_THAT(words, ContainsSubstring("reads pinned memory that a copy writes"));
}

TEST_CASE("the host has waited, or touches what no copy uses") {
  const auto steps = GENERATE(values<void (*)(Numbers&)>({
      [](Numbers& n) {
        n.download();
        cudaStreamSynchronize(n.stream);
        n.write();
      },
      [](Numbers& n) {
        n.download();
        cudaEventSynchronize(n.event);
        n.read();
      },
      [](Numbers& n) {
        n.download();
        while (cudaEventQuery(n.event) != cudaSuccess) continue;
        n.read();
      },
      [](Numbers& n) {  // a copy reads it: so may the host
        n.upload();
        n.read();
      },
      [](Numbers& n) {  // the other number of the same page
        n.download();
        n.host[1] = 2;
      },
      [](Numbers& n) {  // by way of an event that another stream waits for
        cudaStream_t other = nullptr;
        cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
        n.download();
        cudaStreamWaitEvent(other, n.event, 0);
        cudaStreamSynchronize(other);
        n.read();
      },
      [](Numbers& n) {  // freed memory is anybody's
        n.download();
        cudaDeviceSynchronize();
        n.upload();
        cudaStreamSynchronize(n.stream);
        cudaFreeHost(n.host);
      },
  }));
  CHECK(words_of(steps) == "");
}

}  // namespace
}  // namespace ladder
