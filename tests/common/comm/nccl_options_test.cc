// How NCCL's communicators are made, and windows: what arrives, and what all ranks do alike.
#include <cstdlib>
#include <optional>
#include <string>

#include "common/comm/communicator.h"
#include "tests/catch.h"
#include "tests/common/comm/devices.h"

#if LADDER_CUDA_EMULATOR
#include <nccl.h>

#include "common/comm/emulator/made.h"
#include "kernels/emulator/refusals.h"
#include "kernels/runtime/cuda.h"
#endif

namespace ladder::testing {
namespace {

#if LADDER_CUDA_EMULATOR
constexpr int kSuccess = 0, kInvalidUsage = 5;
constexpr size_t kFloats = 1000, kBytes = 4 * kFloats;

// NCCL's version as long as it lives, on the ranks that are to have it.
struct Version {
  Version(const char* version, bool is_mine) {
    if (is_mine) setenv("LADDER_EMULATOR_NCCL_VERSION", version, 1);
  }
  ~Version() { unsetenv("LADDER_EMULATOR_NCCL_VERSION"); }
};

emulator::Refused of_rank_3(const emulator::Refused& calls) {
  return world().rank() == 3 ? calls : emulator::Refused{};
}

std::string last_made() {
  const emulator::MadeCommunicator last = emulator::made_communicators().back();
  const std::string limit =
      last.max_ctas == NCCL_CONFIG_UNDEF_INT ? "no limit" : concat(last.max_ctas);
  return concat(last.call, ", ", last.size, " ranks, ", limit);
}

Tensor floats(Ranks& ranks, NcclMemory& memory, size_t n = kFloats) {
  return Tensor(ranks.device_memory, Category::gradients, DType::fp32, {n}, &memory);
}

// x becomes the sum over the group, and is it.
void require_sum(Communicator& group, Ranks& ranks, const TensorView& x) {
  const size_t me = world().rank(), first = me - group.rank();
  fill<float>(x, [&](size_t i) { return value(me, i); });
  group.all_reduce(ranks.stream, x, {}).wait(ranks.stream);
  ranks.stream.synchronize();
  require_elements<float>(
      x, [&](size_t i) { return reduced(Reduction::sum, first, group.size(), i); });
}

TEST_CASE("the limit of thread blocks arrives, also at groups") {
  Ranks ranks(DeviceType::emulator);
  const auto made = [&](const NcclOptions& options) {
    const auto all = nccl_world(ranks, nullptr, false, options);
    std::string text = last_made();
    const auto half = all->split(all->rank() / 4);
    require_sum(*half, ranks, ranks.take<float>(Place::device, 100));
    return text + "; " + last_made();
  };
  CHECK(made({}) == "ncclCommInitRank, 8 ranks, no limit; ncclCommSplit, 4 ranks, no limit");
  CHECK(made({.max_thread_blocks = 16}) ==
        "ncclCommInitRankConfig, 8 ranks, 16; ncclCommSplit, 4 ranks, 16");
  CHECK(made({.max_thread_blocks = 16, .split = false}) ==
        "ncclCommInitRankConfig, 8 ranks, 16; ncclCommInitRankConfig, 4 ranks, 16");
  const Version old("21700", true);
  CHECK(made({}) == "ncclCommInitRank, 8 ranks, no limit; ncclCommInitRank, 4 ranks, no limit");
}

TEST_CASE("a rank that is alone with its color takes part in a split, and has nobody to wait for") {
  Ranks ranks(DeviceType::emulator);
  const auto all = nccl_world(ranks);
  const auto group = all->split(all->rank() == 5 ? 7 : 2);
  CHECK(group->size() == (all->rank() == 5 ? 1 : 7));
  CHECK(last_made() == (all->rank() == 5 ? "ncclCommInitRank, 8 ranks, no limit"
                                         : "ncclCommSplit, 7 ranks, no limit"));
}

TEST_CASE("buffers that all ranks have become windows, with every communicator") {
  Ranks ranks(DeviceType::emulator);
  NcclMemory memory;
  const auto all = nccl_world(ranks, &memory);
  REQUIRE(memory.try_out());
  REQUIRE(memory.try_windows());
  const auto half = all->split(all->rank() / 4);
  const Tensor x = floats(ranks, memory), y = floats(ranks, memory, 2 * kFloats);
  require_sum(*all, ranks, x);  // not registered anywhere yet
  CHECK(memory.window_bytes() == 0);
  memory.make_windows();
  CHECK(memory.window_bytes() == 2 * 3 * kBytes);
  const Tensor late = floats(ranks, memory);
  const auto other = all->split(all->rank() / 4);
  CHECK(memory.window_bytes() == 2 * 3 * kBytes);
  for (const Tensor* tensor : {&x, &y, &late}) {
    for (Communicator* group : {all.get(), half.get(), other.get()}) {
      require_sum(*group, ranks, *tensor);
    }
  }
  // In place: a rank's part lies elsewhere than that of its peers.
  const TensorView whole = x.view().elements(8, {800});
  const TensorView part = whole.elements(100 * all->rank(), {100});
  fill<float>(whole, [&](size_t i) { return value(all->rank(), i); });
  all->reduce_scatter(ranks.stream, part, whole, {}).wait(ranks.stream);
  all->all_gather(ranks.stream, whole, part, {}).wait(ranks.stream);
  ranks.stream.synchronize();
  require_elements<float>(whole, [](size_t i) { return reduced(Reduction::sum, 0, 8, i); });
}

// Nothing becomes a window, and everything is registered: else sums would be refused.
TEST_CASE("where windows cannot be on one rank, no rank has them") {
  Ranks ranks(DeviceType::emulator);
  NcclMemory memory;
  const auto all = nccl_world(ranks, &memory);
  SECTION("NCCL is too old") {
    const Version old("22609", world().rank() == 3);
    CHECK(!memory.try_windows());
  }
  SECTION("they are null at first") {
    const emulator::Refusal null(of_rank_3({"ncclCommWindowRegister", kSuccess}));
    CHECK(!memory.try_windows());
  }
  std::optional<Tensor> x, y;
  SECTION("a later one is null") {
    const emulator::Refusal null(of_rank_3({"ncclCommWindowRegister", kSuccess, 3}));
    CHECK(memory.try_windows());
    x = floats(ranks, memory);
    y = floats(ranks, memory);
    memory.make_windows();
  }
  SECTION("sizes differ") {
    CHECK(memory.try_windows());
    x = floats(ranks, memory, kFloats + world().rank());
    memory.make_windows();
  }
  SECTION("one more buffer") {
    CHECK(memory.try_windows());
    x = floats(ranks, memory);
    if (world().rank() == 3) y = floats(ranks, memory);
    memory.make_windows();
  }
  memory.make_windows();
  CHECK(memory.window_bytes() == 0);
  if (!x) x = floats(ranks, memory);
  const size_t before = emulator::num_registrations();
  require_sum(*all, ranks, x->view().elements(0, {kFloats}));
  CHECK(before == (y ? 2 : 1));
}

TEST_CASE("ranks that allocate alike have windows, whatever others do") {
  Ranks ranks(DeviceType::emulator);
  NcclMemory memory;
  const auto all = nccl_world(ranks, &memory);
  REQUIRE(memory.try_windows());
  const size_t stage = all->rank() / 4;
  const auto half = all->split(stage);
  const Tensor x = floats(ranks, memory, kFloats + stage);
  std::optional<Tensor> y;
  if (stage == 1) y = floats(ranks, memory);
  memory.make_windows();
  CHECK(memory.window_bytes() == (stage == 1 ? 2 * kBytes + 4 : kBytes));  // with half alone
  require_sum(*half, ranks, x);
  require_sum(*all, ranks, x.view().elements(0, {kFloats}));
}

TEST_CASE("what fails in the middle leaves nothing registered and no memory") {
  Ranks ranks(DeviceType::emulator);
  NcclMemory memory;
  const auto all = nccl_world(ranks, &memory);
  const auto half = all->split(all->rank() / 4);
  const Tensor x = floats(ranks, memory), y = floats(ranks, memory);
  const size_t before = emulator::num_registrations();
  const auto free_bytes = [] {
    size_t free = 0, total = 0;
    cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
  };
  const size_t free_before = free_bytes();
  {
    const emulator::Refusal second({"ncclCommRegister", kInvalidUsage, 2});
    CHECK_THROWS_WITH(floats(ranks, memory), ContainsSubstring("ncclCommRegister was refused"));
  }
  CHECK(emulator::num_registrations() == before);
  CHECK(free_bytes() == free_before);
  {
    const emulator::Refusal second({"ncclCommRegister", kInvalidUsage, 2});
    CHECK_THROWS_WITH(all->split(0), ContainsSubstring("ncclCommRegister was refused"));
  }
  CHECK(emulator::num_registrations() == before);
  const Tensor z = floats(ranks, memory);  // the communicator that failed is not asked
  CHECK(emulator::num_registrations() == before + 2);
  require_sum(*half, ranks, z);
}
#else
TEST_CASE("the CUDA build has NCCL itself") { WARN("skipped: no emulated NCCL here"); }
#endif

}  // namespace
}  // namespace ladder::testing
