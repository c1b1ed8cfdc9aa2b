// In which order a communicator runs operations, in the background and not, when threads are held
// back: random programs of one rank, whose transport says when it was called.

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "common/comm/communicator.h"
#include "common/comm/compressed.h"
#include "common/comm/delay.h"
#include "kernels/runtime/memory.h"
#include "tests/catch.h"
#include "tests/delays.h"

namespace ladder::testing {
namespace {

constexpr size_t kElements = 8;  // of the memory of an operation

// An operation of the program, and when things happened to it; 0 = never.
struct Operation {
  Collective collective = Collective::barrier;
  bool background = false, on_device = false, fails = false;
  int64_t microseconds = 0;  // how long it runs
  int begin = 0, end = 0;    // it ran
  int back = 0;              // its call returned
  int waited = 0;            // the wait for its Work returned
};

std::atomic<int> ticks = 0;
int now() { return ++ticks; }

// A build without CUDA has the emulator; elsewhere all memory is the host's.
#if LADDER_CUDA_EMULATOR
constexpr DeviceType kDevice = DeviceType::emulator;
#else
constexpr DeviceType kDevice = DeviceType::cpu;
#endif

// Operation i has elements [i * kElements, (i + 1) * kElements) of the memory that it is on. A
// barrier has none: `barrier` is the one that is being called.
class Recorder final : public Transport {
 public:
  Recorder(std::vector<Operation>& operations, const TensorView& on_host,
           const TensorView& on_device, const size_t& barrier)
      : Transport(0, 2, kDevice, kDevice != DeviceType::cpu),
        operations_(operations),
        on_host_(on_host),
        on_device_(on_device),
        barrier_(barrier) {}

  Moved execute(const Request& request) override {
    Operation& operation = operations_[index_of(request)];
    operation.begin = now();
    std::this_thread::sleep_for(std::chrono::microseconds(operation.microseconds));
    operation.end = now();
    if (operation.fails) throw Error("on purpose");
    return {};
  }
  void enqueue(const Request& request, Stream&) override {
    Operation& operation = operations_[index_of(request)];
    operation.begin = now();
    operation.end = now();
  }
  std::unique_ptr<Transport> split(size_t) override { fail("it has no groups"); }

 private:
  size_t index_of(const Request& request) const {
    const ConstTensorView view = request.in.empty() ? request.out : request.in;
    if (view.empty()) return barrier_;
    const TensorView& memory = view.device() == DeviceType::cpu ? on_host_ : on_device_;
    const auto* const begin = static_cast<const char*>(memory.data());
    const auto* const own = static_cast<const char*>(view.data());
    return static_cast<size_t>(own - begin) / sizeof(int32_t) / kElements;
  }

  std::vector<Operation>& operations_;
  TensorView on_host_, on_device_;
  const size_t& barrier_;
};

Work call(Communicator& group, Stream& stream, const Operation& operation, TensorView memory) {
  const TensorView whole = memory.rows(0, 4), part = memory.rows(0, 2), other = memory.rows(4, 4);
  const CallOptions options = {.background = operation.background};
  switch (operation.collective) {
    case Collective::all_reduce:
      return group.all_reduce(stream, whole, options);
    case Collective::reduce_scatter:
      return group.reduce_scatter(stream, part, whole, options);
    case Collective::all_gather:
      return group.all_gather(stream, whole, part, options);
    case Collective::broadcast:
      return group.broadcast(stream, whole, 1, options);
    case Collective::reduce:
      return group.reduce(stream, whole, 1, options);
    case Collective::all_to_all:
      return group.all_to_all(stream, other, whole, options);
    case Collective::send:
      return group.send(stream, whole, 1, options);
    case Collective::recv:
      return group.recv(stream, whole, 1, options);
    case Collective::barrier:
      group.barrier();
      return {};
  }
  return {};
}

std::vector<Operation> draw_program(std::mt19937& random) {
  constexpr std::array kCollectives = {
      Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
      Collective::broadcast,  Collective::reduce,         Collective::all_to_all,
      Collective::send,       Collective::send,           Collective::recv,
      Collective::recv,       Collective::barrier};
  std::vector<Operation> program(2 + random() % 10);
  for (Operation& operation : program) {
    operation.collective = kCollectives[random() % kCollectives.size()];
    const bool is_barrier = operation.collective == Collective::barrier;
    operation.background = !is_barrier && random() % 2 == 0;
    operation.on_device = kDevice != DeviceType::cpu && !is_barrier && random() % 8 == 0;
    operation.fails = operation.background && !operation.on_device && random() % 16 == 0;
    operation.microseconds = random() % 3 == 0 ? 200 : 0;
  }
  return program;
}

void run_program(std::vector<Operation>& program, std::mt19937& random) {
  Memory host(DeviceType::cpu, "host", 0), device(kDevice, "device", 0);
  const auto make = [&](Memory& memory) {
    return Tensor(memory, Category::communication, DType::int32, {program.size() * kElements});
  };
  const Tensor on_host = make(host), on_device = make(device);
  Stream stream(kDevice);
  size_t barrier = 0;
  std::vector<Work> works(program.size());
  const auto wait = [&](size_t i) {
    if (program[i].waited > 0) return;
    if (program[i].fails) {
      CHECK_THROWS_WITH(works[i].wait(stream), "on purpose");
    } else {
      works[i].wait(stream);
    }
    program[i].waited = now();
  };
  Communicator group(std::make_unique<Recorder>(program, on_host, on_device, barrier));
  for (size_t i = 0; i < program.size(); ++i) {
    barrier = i;
    const Tensor& memory = program[i].on_device ? on_device : on_host;
    works[i] = call(group, stream, program[i], memory.view().rows(i * kElements, kElements));
    program[i].back = now();
    if (random() % 4 == 0) wait(random() % (i + 1));
  }
  for (size_t i = 0; i < program.size(); ++i) wait(i);
}

// What has come too early.
std::vector<std::string> mistakes(const std::vector<Operation>& program) {
  std::vector<std::string> found;
  const auto require = [&](bool in_order, const std::string& what) {
    if (!in_order) found.push_back(what);
  };
  for (size_t i = 0; i < program.size(); ++i) {
    const Operation& operation = program[i];
    const std::string name = concat(i, " (", name_of(operation.collective),
                                    operation.background ? " in the background)" : ")");
    require(operation.end != 0, name + " never ran");
    require(operation.background || operation.end < operation.back, name + " returned too early");
    require(operation.end < operation.waited, name + " was not waited for");
    for (size_t j = 0; j < i; ++j) {
      const Operation& earlier = program[j];
      // What this rank receives may be what lets its own sends end.
      const bool may_overtake = operation.collective == Collective::recv && !operation.background &&
                                !operation.on_device && earlier.collective == Collective::send &&
                                earlier.background;
      require(may_overtake || earlier.end < operation.begin,
              concat(name, " overtook ", j, " (", name_of(earlier.collective), ")"));
    }
  }
  return found;
}

TEST_CASE(
    "operations run one after the other in the order of their calls; a recv overtakes sends") {
  std::mt19937 random(3);
  size_t num_overtaking = 0;
  for (uint64_t number = 1; number <= 800; ++number) {
    set_delays(number, 0);
    std::vector<Operation> program = draw_program(random);
    run_program(program, random);
    INFO("program " << number);
    for (const std::string& mistake : mistakes(program)) FAIL_CHECK(mistake);
    for (size_t i = 1; i < program.size(); ++i)
      num_overtaking += program[i].end < program[i - 1].end;
  }
  set_delays(0, 0);
  CHECK(num_overtaking > 5);  // so it is not for want of chances
}

// What moves arrives late, after what is sent has been read late: rank 0 gets what it sends itself.
class Late final : public Transport {
 public:
  Late() : Transport(0, 2) {}
  Moved execute(const Request& request) override {
    delay_for_tests("a transport");
    const size_t bytes = request.in.num_bytes();
    auto* const out = static_cast<char*>(request.out.data());
    for (size_t first = 0; first < request.out.num_bytes(); first += bytes) {
      std::memmove(out + first, request.in.data(), bytes);
    }
    return {};
  }
  std::unique_ptr<Transport> split(size_t) override { fail("it has no groups"); }
};

TEST_CASE("compressed sums: segments that move late change no bit") {
  constexpr size_t kCount = 3001;
  const Codec codec = {Format::int8, 32};
  const auto run = [&](uint64_t seed) {
    Memory memory(DeviceType::cpu, "host", 0);
    const Tensor buffer(memory, Category::gradients, DType::fp32, {kCount});
    float* const numbers = buffer.view().as<float>();
    for (size_t i = 0; i < kCount; ++i) numbers[i] = static_cast<float>(i * i % 1013);
    CompressedAreas areas(memory, nullptr, codec, DType::fp32, kCount, 2, 300);
    CompressedSum sum(areas, buffer, {.codec = codec});
    Stream stream(DeviceType::cpu);
    Communicator group(std::make_unique<Late>());
    set_delays(seed, 0);
    group.all_reduce(stream, sum, {.background = seed % 2 == 0}).wait(stream);
    set_delays(0, 0);
    return std::vector<float>(numbers, numbers + kCount);
  };
  const std::vector<float> expected = run(0);
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    CHECK(run(seed) == expected);
  }
}

}  // namespace
}  // namespace ladder::testing
