// Communicators without peers, and what happens to work that nobody waits for.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "common/comm/communicator.h"
#include "common/comm/grid_groups.h"
#include "common/comm/one_rank.h"
#include "common/virtual/dry_run.h"
#include "tests/catch.h"

namespace ladder {
namespace {

TensorView view_of(std::vector<float>& values) {
  return TensorView(values.data(), DType::fp32, DeviceType::cpu, {values.size()});
}

TEST_CASE("Unconnected has a rank and a size, records its calls and moves nothing") {
  Stream stream(DeviceType::cpu);
  Communicator ranks(std::make_unique<Unconnected>(1, 4));
  REQUIRE(ranks.rank() == 1);
  REQUIRE(ranks.size() == 4);
  const std::vector<float> before = {1, 2, 3, 4, 5, 6, 7, 8}, before_shard = {20, 21};
  for (bool background : {false, true}) {
    const CallOptions options = {.purpose = Purpose::gradient, .background = background};
    std::vector<float> x = before, shard = before_shard, other = before;
    ranks.all_reduce(stream, view_of(x), options).wait(stream);
    ranks.reduce_scatter(stream, view_of(shard), view_of(x), options).wait(stream);
    ranks.all_gather(stream, view_of(x), view_of(shard), options).wait(stream);
    ranks.broadcast(stream, view_of(x), 0, options).wait(stream);
    ranks.reduce(stream, view_of(x), 1, options).wait(stream);
    ranks.all_to_all(stream, view_of(other), view_of(x), options).wait(stream);
    ranks.send(stream, view_of(x), 0, options).wait(stream);
    ranks.recv(stream, view_of(x), 0, options).wait(stream);
    ranks.barrier();
    REQUIRE(x == before);
    REQUIRE(other == before);
    REQUIRE(shard == before_shard);
  }
  const TrafficEntries entries = ranks.ledger().entries();
  REQUIRE(entries.size() == 9);
  for (const auto& [key, traffic] : entries) {  // the full vector counts, not a rank's part of it
    INFO(name_of(key));
    if (key.purpose == Purpose::gradient) CHECK(traffic == Traffic{2, 64});
  }
  REQUIRE(entries.at({Purpose::control, Collective::barrier}) == Traffic{2, 0});
  for (const auto& [key, traffic] : ranks.group_entries()) CHECK(traffic.moved.bytes == 0);
}

// A device on which nothing runs, and which can fail.
struct CountedDevice : DryRun {
  StreamId add_stream(DeviceType) override { return ++num_streams; }
  void synchronize_mark(MarkId) override {
    if (fails) throw Error("the device has failed");
  }
  StreamId num_streams = 0;
  bool fails = false;
};

TensorView on_device(std::vector<float>& values) {
  return TensorView(values.data(), DType::fp32, DeviceType::emulator, {values.size()});
}

TEST_CASE("groups of one rank have no stream on the device before they have something to do") {
  CountedDevice device;
  Stream stream(DeviceType::emulator);
  std::vector<float> x(4), y(4);
  const ProcessGrid grid = {.data_size = 4, .rank = 1};
  Communicator world(std::make_unique<Unconnected>(grid, DeviceType::emulator));
  const size_t before = device.num_streams;
  GridGroups groups(world, grid);
  CHECK(device.num_streams == before + 1);  // the data axis has four ranks
  Communicator& alone = groups[Axis::tensor];
  REQUIRE(alone.size() == 1);
  alone.all_reduce(stream, on_device(x), {}).wait(stream);
  alone.reduce_scatter(stream, on_device(x), on_device(x), {}).wait(stream);
  CHECK(device.num_streams == before + 1);
  CHECK(alone.ledger().entries().size() == 2);
  alone.all_gather(stream, on_device(y), on_device(x), {}).wait(stream);
  alone.all_gather(stream, on_device(y), on_device(x), {}).wait(stream);
  CHECK(device.num_streams == before + 2);
}

TEST_CASE("a device that fails while a group ends does not end the program without a word") {
  CountedDevice device;
  Stream stream(DeviceType::emulator);
  std::vector<float> x(4);
  const ProcessGrid grid = {.data_size = 4, .rank = 1};
  Communicator world(std::make_unique<Unconnected>(grid, DeviceType::emulator));
  auto group = world.split_axis(Axis::data, 0);
  group->all_reduce(stream, on_device(x), {}).wait(stream);
  device.fails = true;
  CHECK_THROWS_WITH(group->ledger(), ContainsSubstring("the device has failed"));
  group->all_reduce(stream, on_device(x), {}).wait(stream);
  group.reset();  // its destructor asks for the times
}

TEST_CASE("one rank alone: every operation is the identity") {
  Stream stream(DeviceType::cpu);
  Communicator alone{std::make_unique<OneRank>()};
  const std::vector<float> before = {1, 2, 3};
  std::vector<float> x = before, copied(3), gathered(3), exchanged(3);
  alone.all_reduce(stream, view_of(x), {.background = true}).wait(stream);
  alone.reduce_scatter(stream, view_of(copied), view_of(x), {}).wait(stream);
  alone.all_gather(stream, view_of(gathered), view_of(x), {}).wait(stream);
  alone.all_to_all(stream, view_of(exchanged), view_of(x), {}).wait(stream);
  alone.broadcast(stream, view_of(x), 0, {}).wait(stream);
  alone.reduce(stream, view_of(x), 0, {}).wait(stream);
  alone.barrier();
  for (const std::vector<float>& result : {x, copied, gathered, exchanged}) {
    REQUIRE(result == before);
  }
  REQUIRE(alone.split(7)->size() == 1);
}

// In a child process, since it ends the process.
TEST_CASE("work that is destroyed without wait ends the program") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);  // not Catch's handler
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    Stream stream(DeviceType::cpu);
    std::vector<float> x(8);
    Communicator ranks(std::make_unique<Unconnected>(0, 2));
    { const Work forgotten = ranks.all_reduce(stream, view_of(x), {.background = true}); }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(WTERMSIG(status) == SIGABRT);
}

}  // namespace
}  // namespace ladder
