// Collectives on device memory: what is promised beside the sums.
#include <cmath>
#include <cstring>
#include <iostream>
#include <optional>
#include <vector>

#include "common/comm/communicator.h"
#include "common/comm/job.h"
#include "common/comm/one_rank.h"
#include "common/comm/watchdog.h"
#include "kernels/runtime/device_wait.h"
#include "tests/catch.h"
#include "tests/common/comm/devices.h"

#if LADDER_CUDA_EMULATOR
#include "kernels/emulator/refusals.h"
#endif

namespace ladder::testing {
namespace {

// Runs body(communicator, ranks) by NCCL, where there is a GPU for each rank, and staged.
template <class Body>
void on_devices(Body body) {
  if (const auto device = device_for_nccl()) {
    INFO("NCCL");
    Ranks ranks(*device);
    NcclMemory memory;
    const auto all = nccl_world(ranks, &memory);
    body(*all, ranks);
  }
  if (const auto device = device_for_tests()) {
    INFO("staged");
    Ranks ranks(*device);
    const auto all = staged_world(ranks);
    body(*all, ranks);
  }
}

std::string error_of(auto body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("what is queued before a call is its input, what is queued after wait sees the result") {
  on_devices([](Communicator& all, Ranks& ranks) {
    const size_t size = all.size();
    for (bool background : {false, true}) {
      const CallOptions options = {.purpose = Purpose::gradient, .background = background};
      const TensorView x = ranks.take<double>(Place::device, 3000);
      const TensorView input = ranks.take<double>(Place::device, 3000);
      const TensorView seen = ranks.take<double>(Place::device, 3000);
      fill<double>(input, [&](size_t i) { return value(all.rank(), i); });
      copy(ranks.stream, x, input);
      Work work = all.all_reduce(ranks.stream, x, options);
      work.wait(ranks.stream);
      copy(ranks.stream, seen, x);
      ranks.stream.synchronize();
      require_elements<double>(seen, [&](size_t i) { return reduced(Reduction::sum, 0, size, i); });
      ranks.release(all, {x, input, seen});
    }
  });
}

TEST_CASE("works of one communicator may be waited for in any order") {
  on_devices([](Communicator& all, Ranks& ranks) {
    const CallOptions options = {.purpose = Purpose::gradient, .background = true};
    std::vector<TensorView> views;
    std::vector<Work> works;
    for (size_t i = 0; i < 10; ++i) {
      views.push_back(ranks.take<float>(Place::device, 100 + i));
      fill<float>(views[i], [&](size_t k) { return value(all.rank(), k + i); });
      works.push_back(all.all_reduce(ranks.stream, views[i], options));
    }
    while (!works.empty()) {
      works.back().wait(ranks.stream);
      works.pop_back();
    }
    ranks.stream.synchronize();
    for (size_t i = 0; i < views.size(); ++i) {
      require_elements<float>(
          views[i], [&](size_t k) { return reduced(Reduction::sum, 0, all.size(), k + i); });
    }
    all.barrier();
    Ranks::guard_everything(ranks.on_device);
  });
}

TEST_CASE("buffers where the communicator cannot work are refused before anything moves") {
  on_devices([](Communicator& all, Ranks& ranks) {
    const TensorView device = ranks.take<float>(Place::device, 8 * 5);
    const TensorView host = ranks.take<float>(Place::unregistered, 5);
    Stream host_stream(DeviceType::cpu);
    const std::string mixed =
        error_of([&] { all.reduce_scatter(ranks.stream, host, device, {}).wait(ranks.stream); });
    CHECK_THAT(mixed, ContainsSubstring("reduce_scatter: one buffer is on") &&
                          ContainsSubstring("the other on cpu"));
    const std::string stream =
        error_of([&] { all.all_reduce(host_stream, device, {}).wait(host_stream); });
    CHECK_THAT(stream, ContainsSubstring("its stream is of another device"));
    const auto plain = make_communicator(world(), &ranks.node_memory);
    const std::string unknown =
        error_of([&] { plain->all_reduce(ranks.stream, device, {}).wait(ranks.stream); });
    CHECK_THAT(unknown, ContainsSubstring("all_reduce: the buffer is on") &&
                            ContainsSubstring("this communicator is for cpu"));
    CHECK(all.ledger().entries().empty());
    CHECK(plain->ledger().entries().empty());
  });
}

TEST_CASE("the ledger counts calls on both devices, and times of those on the device") {
  on_devices([](Communicator& all, Ranks& ranks) {
    size_t observed = 0;
    all.set_observer([&](const TrafficKey&, auto begin, auto end) {
      ++observed;
      CHECK(begin <= end);
    });
    const TensorView device = ranks.take<float>(Place::device, 1000);
    double number = 1;
    constexpr size_t kCalls = 1100;  // more than are kept unresolved
    for (size_t i = 0; i < kCalls; ++i) {
      all.all_reduce(ranks.stream, device.rows(0, i % 2 == 0 ? 1000 : 1),
                     {.purpose = Purpose::gradient, .background = true})
          .wait(ranks.stream);
    }
    all.all_reduce(ranks.stream, TensorView(&number, DType::fp64, DeviceType::cpu, {1}), {})
        .wait(ranks.stream);
    CHECK(number == static_cast<double>(all.size()));
    const TrafficEntries entries = all.ledger().entries();
    REQUIRE(entries.size() == 2);
    const Traffic gradient = entries.at({Purpose::gradient, Collective::all_reduce});
    CHECK(gradient == Traffic{kCalls, kCalls / 2 * 4 * 1001});
    CHECK(gradient.busy_seconds > 0);
    CHECK(gradient.exposed_seconds >= 0);
    // The emulator hides nothing.
    const bool by_nccl = gradient.by_formula;
    if (ranks.stream.device() == DeviceType::emulator && by_nccl) {
      CHECK(gradient.exposed_seconds == gradient.busy_seconds);
    }
    CHECK(entries.at({Purpose::control, Collective::all_reduce}) == Traffic{1, 8});
    CHECK(observed == kCalls + 1);
    all.barrier();
    Ranks::guard_everything(ranks.on_device);
  });
}

// Inputs whose sum depends on the order: 1e8 + 1 == 1e8 in fp32.
float touchy(size_t rank, size_t i) {
  const float values[] = {1e8F, 1.0F, -1e8F, 0.3F, 1e8F, -1.0F, 7.7F, -1e8F};
  return values[(rank + i) % 8] * (1.0F + static_cast<float>(i % 13) / 16);
}

TEST_CASE("staged: the bits of ranks on the CPU, whatever the size of the staging area") {
  const auto device = device_for_tests();
  if (!device) return;
  constexpr size_t kElements = 8 * 16 * 37;
  Ranks ranks(*device);
  const TensorView host = ranks.take<float>(Place::registered, kElements);
  fill<float>(host, [&](size_t i) { return touchy(world().rank(), i); });
  const std::vector<float> inputs = to_host<float>(host);
  const auto cpu = make_communicator(world(), &ranks.node_memory);
  cpu->all_reduce(ranks.stream, host, {}).wait(ranks.stream);
  const std::vector<float> expected = to_host<float>(host);
  const auto same = [&](const TensorView& view) {
    return std::memcmp(to_host<float>(view).data(), expected.data(), 4 * kElements) == 0;
  };
  for (size_t staging_bytes : {size_t{1}, size_t{1000}, size_t{1} << 20}) {
    INFO("staging " << staging_bytes);
    const auto all = staged_world(ranks, staging_bytes);
    const TensorView whole = ranks.take<float>(Place::device, kElements);
    const TensorView sharded = ranks.take<float>(Place::device, kElements);
    to_device(whole, inputs);
    to_device(sharded, inputs);
    all->all_reduce(ranks.stream, whole, {}).wait(ranks.stream);
    ranks.stream.synchronize();
    CHECK(same(whole));
    const size_t n = kElements / all->size();
    const TensorView shard = sharded.elements(all->rank() * n, {n});
    all->reduce_scatter(ranks.stream, shard, sharded, {}).wait(ranks.stream);
    all->all_gather(ranks.stream, sharded, shard, {}).wait(ranks.stream);
    ranks.stream.synchronize();
    CHECK(same(sharded));
    ranks.release(*all, {whole, sharded});
  }
}

TEST_CASE("NCCL: calls that differ are found when they are compared") {
  const auto device = device_for_nccl();
  if (!device) return;
  Ranks ranks(*device);
  const auto all = nccl_world(ranks, nullptr, true);
  const TensorView x = ranks.take<float>(Place::device, 50);
  all->all_reduce(ranks.stream, x, {}).wait(ranks.stream);
  const size_t n = all->rank() == 3 ? 41 : 40;
  const std::string error =
      error_of([&] { all->all_reduce(ranks.stream, x.rows(0, n), {}).wait(ranks.stream); });
  CHECK_THAT(error, ContainsSubstring(all->rank() == 3 ? "all_reduce of 41 fp32, rank 0 on "
                                                       : "all_reduce of 40 fp32, rank 3 on "));
}

TEST_CASE("NCCL: registered memory is zero-filled device memory of every communicator") {
  const auto device = device_for_nccl();
  if (!device) return;
  Ranks ranks(*device);
  NcclMemory memory;
  const Tensor before(ranks.device_memory, Category::gradients, DType::fp32, {1000}, &memory);
  const auto all = nccl_world(ranks, &memory);
  const auto half = all->split(all->rank() / 4);
  const Tensor after(ranks.device_memory, Category::gradients, DType::fp32, {1000}, &memory);
  for (const Tensor* x : {&before, &after}) {
    require_elements<float>(*x, [](size_t) { return 0; });
    for (Communicator* group : {all.get(), half.get()}) {
      fill<float>(*x, [&](size_t i) { return value(all->rank(), i); });
      group->all_reduce(ranks.stream, *x, {}).wait(ranks.stream);
      ranks.stream.synchronize();
      const size_t first = all->rank() - group->rank();
      require_elements<float>(
          *x, [&](size_t i) { return reduced(Reduction::sum, first, group->size(), i); });
    }
  }
}

TEST_CASE("NCCL: registered memory is zero-filled at once, and freed after what was queued on it") {
  const auto device = device_for_nccl();
  if (!device) return;
  Ranks ranks(*device);
  NcclMemory memory;
  const auto all = nccl_world(ranks, &memory);
  for (int round = 0; round < 5; ++round) {
    const Tensor x(ranks.device_memory, Category::gradients, DType::fp32, {1000}, &memory);
    require_elements<float>(x, [](size_t) { return 0; });
    all->all_reduce(ranks.stream, x, {.background = true}).wait(ranks.stream);
  }
  ranks.stream.synchronize();
}

// While an exception unwinds the stack a communicator must not wait for a peer that never comes. On
// host memory, whose operations can be given up within a process that goes on.
TEST_CASE("an error ends background operations beside the device") {
  on_devices([](Communicator& all, Ranks& ranks) {
    const std::string error = error_of([&] {
      const auto group = all.split(0);
      Work work;
      if (group->rank() != 3) {
        work = group->all_reduce(ranks.stream, ranks.take<float>(Place::registered, 120),
                                 {.background = true});
      }
      fail("something else went wrong");
    });
    // A rank that is late hears that another one has given up before it comes to its own error.
    CHECK_THAT(error, ContainsSubstring("something else went wrong") ||
                          ContainsSubstring("a peer has ended or given up"));
  });
}

// Their kernels would wait for ever for the rank that has given up.
TEST_CASE("NCCL: a rank that gives up ends the waits of its peers for the device") {
  if (device_for_nccl() != DeviceType::emulator) return;  // NCCL itself tells only over a network
  Ranks ranks(DeviceType::emulator);
  NcclMemory memory;
  const auto all = nccl_world(ranks, &memory);
  const auto group = all->split(0);  // its communicators are given up together
  const TensorView x = ranks.take<float>(Place::device, 100);
  all->all_reduce(ranks.stream, x, {}).wait(ranks.stream);
  ranks.stream.synchronize();
  all->barrier();
  const bool gives_up = all->rank() == 3;
  if (gives_up) group->give_up();
  const char* const why = gives_up ? "given up after an error" : "a peer has ended or given up";
  const auto never = [] { return false; };
  CHECK_THAT(error_of([&] { wait_with_checks(never, [] {}); }), ContainsSubstring(why));
  CHECK_THAT(error_of([&] { all->all_reduce(ranks.stream, x, {}).wait(ranks.stream); }),
             ContainsSubstring(why));
  all->give_up();
}

#if LADDER_CUDA_EMULATOR
constexpr int kNoMemory = 2, kCudaError = 1, kSystemError = 2, kInvalidUsage = 5;  // of CUDA; NCCL

// Calls that rank 3 has refused, and no other rank.
emulator::Refused of_rank_3(const emulator::Refused& calls) {
  return world().rank() == 3 ? calls : emulator::Refused{};
}

TEST_CASE("NCCL: a rank whose call fails within a group ends the waits of its peers") {
  Ranks ranks(DeviceType::emulator);
  const auto all = nccl_world(ranks);
  const TensorView in = ranks.take<float>(Place::device, 8);
  const TensorView out = ranks.take<float>(Place::device, 8);
  const Watchdog watchdog(std::chrono::seconds(20), [] {
    std::cerr << world().name() + " still waits for rank 3\n" << std::flush;
    MpiWorld::abort(1);
  });
  // A rank that is still being connected when rank 3 gives up would have the error there.
  world().all_gather({0});
  const bool fails = all->rank() == 3;
  const emulator::Refusal refusal(of_rank_3({"ncclSend", kSystemError, 5}));
  const std::string error =
      error_of([&] { all->all_to_all(ranks.stream, out, in, {}).wait(ranks.stream); });
  if (fails) {
    CHECK_THAT(error, ContainsSubstring("ncclSend was refused"));
  } else {
    CHECK_THAT(error, ContainsSubstring("a peer has ended or given up"));
  }
  all->give_up();
}

TEST_CASE("NCCL: one rank cannot allocate or register memory") {
  Ranks ranks(DeviceType::emulator);
  NcclMemory memory;
  const auto all = nccl_world(ranks, &memory);
  const bool fails = all->rank() == 3;
  for (const char* function : {"ncclMemAlloc", "ncclCommRegister"}) {
    {
      const emulator::Refusal refusal(of_rank_3({function, kInvalidUsage}));
      CHECK(memory.try_out() == !fails);
    }
    const emulator::Refusal refusal(of_rank_3({function, kInvalidUsage, 2}));
    CHECK(memory.try_out());
    const std::string error = error_of(
        [&] { Tensor(ranks.device_memory, Category::gradients, DType::fp32, {1000}, &memory); });
    CHECK_THAT(error, ContainsSubstring(fails ? concat(function, " was refused") : ""));
    CHECK(error.empty() == !fails);
  }
}

TEST_CASE("NCCL: device memory that is used up is named") {
  Ranks ranks(DeviceType::emulator);
  NcclMemory memory;
  const auto all = nccl_world(ranks, &memory);
  {
    const emulator::Refusal refusal({"cudaMalloc", kNoMemory});
    CHECK_THROWS_AS(Tensor(ranks.device_memory, Category::gradients, DType::fp32, {9}, &memory),
                    OutOfMemory);
  }
  const TensorView x = ranks.take<float>(Place::device, 8);
  const emulator::Refusal refusal({"ncclAllReduce", kCudaError});
  CHECK_THAT(error_of([&] { all->all_reduce(ranks.stream, x, {}).wait(ranks.stream); }),
             ContainsSubstring("out of device memory: NCCL (ncclAllReduce) finds no more, with ") &&
                 ContainsSubstring(" free; take a smaller --micro-batch-size"));
}
#endif

TEST_CASE("one rank on a device: every operation is the identity") {
  const auto device = device_for_tests();
  if (!device) return;
  Ranks ranks(*device);
  Communicator alone(std::make_unique<OneRank>(*device));
  const TensorView x = ranks.take<int32_t>(Place::device, 100);
  const TensorView y = ranks.take<int32_t>(Place::device, 100);
  fill<int32_t>(x, [](size_t i) { return i; });
  alone.all_reduce(ranks.stream, x, {}).wait(ranks.stream);
  alone.all_gather(ranks.stream, y, x, {.background = true}).wait(ranks.stream);
  ranks.stream.synchronize();
  require_elements<int32_t>(y, [](size_t i) { return i; });
  CHECK(alone.split(3)->size() == 1);
  CHECK(alone.ledger().entries().size() == 2);
}

}  // namespace
}  // namespace ladder::testing
