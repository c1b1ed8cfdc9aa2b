// Faults that end the process: each in a child, whose last words are read.
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "kernels/cuda/launch.h"
#include "kernels/emulator/arena.h"
#include "tests/catch.h"
#include "tests/kernels/emulator/endings.h"
#include "tests/kernels/emulator/support.h"

namespace ladder {
namespace {

// Messages name the first thread that makes the mistake: here it is always the same one.
const WithSeed order_of_indices(0);

using cuda::launch;

void say(std::string_view words) {
  if (write(STDERR_FILENO, words.data(), words.size()) < 0) _exit(2);
}

int* device_number() {
  int* pointer = nullptr;
  if (cudaMalloc(&pointer, sizeof(int)) != cudaSuccess) _exit(3);
  return pointer;
}

TEST_CASE("host code that reads or writes device memory ends with one clear line") {
  const bool writes = GENERATE(false, true);
  const Ending ending = ending_of([&] {
    volatile int* const pointer = device_number();
    if (writes) *pointer = 1;
    [[maybe_unused]] const int value = *pointer;
  });
  CAPTURE(ending.words);
  CHECK(died_of_fault(ending));
  CHECK_THAT(ending.words,
             StartsWith("CUDA emulator: host code reads or writes device memory, at 0x") &&
                 EndsWith(": copy it to the host first (ladder::copy or "
                          "cudaMemcpyAsync)\n"));
}

TEST_CASE("device memory is closed again after copies and kernels, and open while asked to be") {
  const Ending ending = ending_of([] {
    int* const pointer = device_number();
    int host = 5;
    cudaMemcpy(pointer, &host, sizeof host, cudaMemcpyHostToDevice);
    {
      const emulator::DeviceAccess outer;
      { const emulator::DeviceAccess inner; }
      if (*pointer != 5) _exit(4);
      int* const more = device_number();  // while it is open
      *more = 6;
    }
    say("so far\n");
    host = *static_cast<volatile int*>(pointer);
  });
  CHECK(died_of_fault(ending));
  CHECK_THAT(ending.words, StartsWith("so far\nCUDA emulator: host code"));
}

__global__ void write_far(int* out) { out[1 << 26] = 1; }

TEST_CASE("a kernel that leaves device memory is named") {
  const Ending ending = ending_of([] {
    launch<write_far>(nullptr, {dim3(1), dim3(3)}, device_number());
  });
  CAPTURE(ending.words);
  CHECK(died_of_fault(ending));
  CHECK_THAT(ending.words, StartsWith("CUDA emulator: kernel ladder::{anonymous}::write_far, block "
                                      "(0, 0, 0), thread (0, 0, 0): access to 0x") &&
                               EndsWith(", where no device memory is allocated\n"));
}

__global__ void write_before(int* out) { out[-100] = 1; }

TEST_CASE("a kernel that writes before the first allocation is named") {
  const Ending ending = ending_of([] {
    launch<write_before>(nullptr, {dim3(1), dim3(1)}, device_number());
  });
  CHECK(died_of_fault(ending));
  CHECK_THAT(ending.words, ContainsSubstring("write_before"));
}

// Recursion that the compiler cannot turn into a loop: every call looks at its caller's frame.
__attribute__((noinline)) int depth_of(const volatile char* above, int depth) {
  volatile char local[1000];
  local[0] = above[0];
  return depth == 0 ? 0 : local[0] + depth_of(local, depth - 1);
}

__global__ void recurse(int* out, int depth) {
  __syncthreads();
  const volatile char one = 1;
  if (threadIdx.x == 40 && blockIdx.x == 1) *out = depth_of(&one, depth);
}

TEST_CASE("a thread that overflows its stack is named") {
  const auto run = [](int depth) {
    int* const out = device_number();
    launch<recurse>(nullptr, {dim3(2), dim3(64)}, out, depth);
    int host = 0;
    cudaMemcpy(&host, out, sizeof host, cudaMemcpyDeviceToHost);
    return host;
  };
  const Ending ending = ending_of([&] {
    if (run(50) != 50) _exit(4);
    std::thread([&] { run(1000000); }).join();
  });
  CAPTURE(ending.words);
  CHECK(died_of_fault(ending));
  CHECK_THAT(ending.words,
             StartsWith("CUDA emulator: kernel ladder::{anonymous}::recurse, block "
                        "(1, 0, 0), thread (40, 0, 0): the stack of the thread is full"));
}

__global__ void write_shared(size_t at) { cuda::dynamic_shared<volatile float>()[at] = 1; }

TEST_CASE("a kernel that writes behind its dynamic shared memory is named") {
  launch<write_shared>(nullptr, {dim3(1), dim3(1), 64}, size_t{15});
  const Ending ending = ending_of([] {
    launch<write_shared>(nullptr, {dim3(1), dim3(1), 64}, size_t{16});
  });
  CHECK(died_of_fault(ending));
  CHECK_THAT(ending.words, ContainsSubstring("write_shared") &&
                               ContainsSubstring("behind the end of the dynamic shared memory"));
}

TEST_CASE("other faults are left to whoever handled them before") {
  const Ending silent = ending_of([] {
    device_number();
    void* const closed = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *static_cast<volatile int*>(closed) = 1;
  });
  CHECK(died_of_fault(silent));
  CHECK(silent.words == "");

  const Ending sent = ending_of([] {
    device_number();
    raise(SIGSEGV);
  });
  CHECK(died_of_fault(sent));
}

TEST_CASE("a handler that was there before still gets the fault") {
  const Ending ending = ending_of([] {
    signal(SIGSEGV, [](int) {
      say("earlier handler\n");
      _exit(7);
    });
    [[maybe_unused]] const int value = *static_cast<volatile int*>(device_number());
  });
  CHECK(WIFEXITED(ending.status));
  CHECK(WEXITSTATUS(ending.status) == 7);
  CHECK_THAT(ending.words, StartsWith("CUDA emulator: ") && EndsWith("\nearlier handler\n"));
}

}  // namespace
}  // namespace ladder
