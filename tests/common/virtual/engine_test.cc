#include "common/virtual/engine.h"

#include <algorithm>
#include <array>

#include "common/comm/communicator.h"
#include "common/virtual/dry_run.h"
#include "common/virtual/transport.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/runtime/memory_source.h"
#include "tests/catch.h"
#include "tests/common/virtual/times.h"

namespace ladder {
namespace {

const SimpleTimes kTimes;
constexpr DeviceType kDevice = DeviceType::emulator;

double host_time() { return seconds_between(Time(), Clock::now()); }

// A kernel of so many seconds.
void compute(Stream& stream, double seconds) {
  Simulation::current()->launch(stream.simulated(),
                                {"work", DType::fp32, {.product_flops = seconds}});
}

TensorView bytes(size_t count, DeviceType device = kDevice) {
  return TensorView(no_memory().allocate(count), DType::int32, device, {count / 4});
}

TEST_CASE("The host queues kernels for a device and goes on; on a CPU it waits for each") {
  Engine engine(kTimes, 1);
  engine.run([&](size_t) {
    Stream stream(kDevice), host(DeviceType::cpu);
    compute(stream, 10);
    compute(stream, 10);
    CHECK(host_time() == 0.5);
    compute(host, 2);
    CHECK(host_time() == 2.5);
    stream.synchronize();
    CHECK(host_time() == 20.25);
    stream.synchronize();  // nothing to wait for
    CHECK(host_time() == 20.25);
  });
}

TEST_CASE("A kernel that stands for several takes the host as many times") {
  struct : SimpleTimes {
    double launches(const KernelCall& call) const override {
      return call.cost.product_flops == 10 ? 3 : 1;
    }
  } times;
  Engine engine(times, 1);
  engine.run([&](size_t) {
    Stream stream(kDevice);
    compute(stream, 10);
    CHECK(host_time() == 0.75);
    compute(stream, 9);
    CHECK(host_time() == 1);
    stream.synchronize();
    CHECK(host_time() == 19.25);  // the first kernel began at 0.25
  });
}

TEST_CASE("A kernel's entry tells its name and cost, and its body does not run") {
  Engine engine(kTimes, 1);
  std::vector<DeviceSpan> spans;
  engine.set_observer([&](const DeviceSpan& span) { spans.push_back(span); });
  engine.run([&](size_t) {
    Stream stream(kDevice);
    const auto matrix = [](size_t m, size_t n) {
      return TensorView(no_memory().allocate(4 * m * n), DType::fp32, kDevice, {m, n});
    };
    matmul(stream, matrix(2, 3), matrix(2, 4), matrix(4, 3));
  });
  REQUIRE(spans.size() == 1);
  CHECK(spans[0].name == std::string("matmul"));
  CHECK(spans[0].end - spans[0].begin == 2 * 2 * 3 * 4);
  CHECK(engine.product_flops(0) == 48);
}

TEST_CASE("A simulation may let a call compute") {
  struct Computing final : DryRun {
    void launch(StreamId, const KernelCall& call) override { call.compute(); }
  };
  float numbers[] = {1, 2, 3};
  const TensorView view(numbers, DType::fp32, DeviceType::cpu, {3});
  const Computing simulation;
  Stream stream(DeviceType::cpu);
  scale(stream, view, view, 2);
  CHECK(std::ranges::equal(numbers, std::array{2.F, 4.F, 6.F}));
}

TEST_CASE("Events order streams and tell simulated times") {
  Engine engine(kTimes, 1);
  engine.run([&](size_t) {
    Stream first(kDevice), second(kDevice);
    Event before, after;
    before.record(first);
    compute(first, 4);
    after.record(first);
    second.wait(after);
    copy(second, bytes(8, DeviceType::cpu), bytes(8));
    second.synchronize();
    CHECK(Event::elapsed_ms(before, after) == 4250);  // 0.25 until it is queued
    CHECK(host_time() == 12.25);
    after.record(second);  // moves it
    after.synchronize();
    CHECK(Event::elapsed_ms(before, after) == 12250);
  });
}

TEST_CASE("A collective takes from the last rank's call on, and its Work is waited for") {
  Engine engine(kTimes, 2);
  engine.run([&](size_t rank) {
    const ProcessGrid grid = {.data_size = 2, .rank = rank};
    Communicator world(std::make_unique<SimulatedTransport>(engine, grid, kDevice));
    Stream stream(kDevice);
    if (rank == 1) compute(stream, 5);
    Work work = world.all_reduce(stream, bytes(8), {.background = true});
    compute(stream, 1);
    work.wait(stream);
    stream.synchronize();
    CHECK(host_time() == 13.25);
    const TrafficEntries entries = world.ledger().entries();
    REQUIRE(entries.size() == 1);
    const Traffic& traffic = entries.begin()->second;
    CHECK(traffic.payload_bytes == 8);
    // Rank 0 has called at 0.25 and is done with its kernel at 1.25 or, if that ran beside the
    // all_reduce, not later than its end.
    CHECK(traffic.exposed_seconds <= traffic.busy_seconds);
    CHECK(traffic.busy_seconds >= 8);
  });
}

TEST_CASE("Ranks send along the pipeline, and a group is of its own axis") {
  Engine engine(kTimes, 4);
  engine.run([&](size_t rank) {
    const ProcessGrid grid = {.pipeline_size = 2, .data_size = 2, .rank = rank};
    Communicator world(std::make_unique<SimulatedTransport>(engine, grid, kDevice));
    const auto pipeline = world.split_axis(Axis::pipeline, grid.group(Axis::pipeline).color);
    CHECK(pipeline->size() == 2);
    CHECK(pipeline->rank() == rank / 2);
    Stream stream(kDevice);
    // The column of rank 1 and 3 begins later, and the other one does not wait for it.
    if (rank == 1) compute(stream, 3);
    if (pipeline->rank() == 0) {
      pipeline->send(stream, bytes(4), 1, {}).wait(stream);
    } else {
      pipeline->recv(stream, bytes(4), 0, {}).wait(stream);
    }
    stream.synchronize();
    CHECK(host_time() == (rank % 2 == 0 ? 4.25 : 7.25));
  });
}

void expect_failure(size_t num_ranks, const std::function<void(size_t, Communicator&)>& body,
                    const std::string& message) {
  Engine engine(kTimes, num_ranks);
  const auto run = [&] {
    engine.run([&](size_t rank) {
      const ProcessGrid grid = {.data_size = num_ranks, .rank = rank};
      Communicator world(std::make_unique<SimulatedTransport>(engine, grid, kDevice));
      body(rank, world);
    });
  };
  CHECK_THROWS_WITH(run(), ContainsSubstring(message));
  CHECK(Simulation::current() == nullptr);
}

TEST_CASE("Ranks that wait for each other for ever are named") {
  expect_failure(
      2,
      [](size_t rank, Communicator& world) {
        Stream stream(kDevice);
        world.recv(stream, bytes(4), 1 - rank, {}).wait(stream);
        stream.synchronize();
      },
      "a deadlock: no rank can go on; rank 0 has not called the other side of recv from rank 0 to "
      "rank 1; rank 1 has not called the other side of recv from rank 1 to rank 0; rank 0 stands "
      "at "
      "send; rank 1 stands at send");
}

TEST_CASE("A rank that does not come to a collective is missed") {
  expect_failure(
      3,
      [](size_t rank, Communicator& world) {
        if (rank == 1) return;
        Stream stream(kDevice);
        world.all_reduce(stream, bytes(4), {}).wait(stream);
        stream.synchronize();
      },
      "1 of 3 ranks have not called all_reduce, as rank 0 has; rank 0 stands at all_reduce; rank 2 "
      "stands at all_reduce");
}

TEST_CASE("Ranks that call different collectives are named") {
  expect_failure(
      2,
      [](size_t rank, Communicator& world) {
        Stream stream(kDevice);
        world.all_reduce(stream, bytes(rank == 0 ? 8 : 4), {}).wait(stream);
        stream.synchronize();
      },
      "rank 1 calls all_reduce of 4 bytes, rank 0 calls all_reduce of 8 bytes as call number 0");
}

TEST_CASE("If a rank fails, the others give back what they have") {
  size_t alive = 0;
  struct Alive {
    explicit Alive(size_t& count_) : count(count_) { ++count; }
    ~Alive() { --count; }
    size_t& count;
  };
  expect_failure(
      3,
      [&](size_t rank, Communicator& world) {
        const Alive one(alive);
        Stream stream(kDevice);
        if (rank == 2) throw Error("out of paper");
        world.all_reduce(stream, bytes(4), {}).wait(stream);
        stream.synchronize();
      },
      "out of paper");
  CHECK(alive == 0);
}

TEST_CASE("Who watches a run can end it") {
  Engine engine(kTimes, 2);
  size_t num_calls = 0, num_left = 2;
  struct Leaving {
    size_t& count;
    ~Leaving() { --count; }
  };
  engine.set_watch([&] {
    if (++num_calls == 50) throw Error("time is up");
  });
  const auto run = [&] {
    engine.run([&](size_t) {
      const Leaving leaving{num_left};
      Stream stream(kDevice);
      while (true) {
        compute(stream, 1);
        stream.synchronize();
      }
    });
  };
  CHECK_THROWS_WITH(run(), "time is up");
  CHECK(num_calls == 50);
  CHECK(num_left == 0);
}

TEST_CASE("Of a run that ends at once no further rank begins") {
  Engine engine(kTimes, 3);
  size_t num_begun = 0;
  engine.set_watch([&] {
    if (num_begun == 1) throw Error("time is up");
  });
  CHECK_THROWS_WITH(engine.run([&](size_t) { ++num_begun; }), "time is up");
  CHECK(num_begun == 1);
}

TEST_CASE("Two runs have the same times to the bit") {
  const auto run = [] {
    std::vector<double> ends;
    Engine engine(kTimes, 4);
    engine.set_observer([&](const DeviceSpan& span) { ends.push_back(span.end); });
    engine.run([&](size_t rank) {
      const ProcessGrid grid = {.data_size = 4, .rank = rank};
      Communicator world(std::make_unique<SimulatedTransport>(engine, grid, kDevice));
      Stream stream(kDevice);
      for (int i = 1; i < 20; ++i) {
        compute(stream, 0.1 * static_cast<double>(i % 7 + rank));
        Work work = world.all_reduce(stream, bytes(4), {.background = true});
        compute(stream, 0.3);
        work.wait(stream);
      }
      stream.synchronize();
    });
    return ends;
  };
  const std::vector<double> first = run();
  CHECK(first.size() == 4 * 19 * 3);
  CHECK(first == run());
}

}  // namespace
}  // namespace ladder
