// Messages between two ranks: nothing relies on MPI's buffers, and sends in the background let the
// caller receive.
#include <chrono>
#include <functional>
#include <thread>

#include "tests/common/comm/devices.h"

namespace ladder::testing {
namespace {

constexpr size_t kSizes[] = {1, (size_t{1} << 20) + 7};  // the long one in two segments

// What one rank sends and receives.
struct Buffers {
  Buffers(Ranks& ranks, size_t n)
      : memory(ranks.stream.device() == DeviceType::cpu ? ranks.memory : ranks.device_memory),
        out(memory, Category::communication, DType::fp32, {n}),
        in(memory, Category::communication, DType::fp32, {n}) {
    fill<float>(out, [&](size_t i) { return value(world().rank(), i); });
    Ranks::guard_everything(in);
  }
  void require_from(Ranks& ranks, size_t rank) const {
    ranks.stream.synchronize();
    require_elements<float>(in, [&](size_t i) { return value(rank, i); });
  }

  Memory& memory;
  Tensor out, in;
};

using Make = std::function<std::unique_ptr<Communicator>(Ranks& ranks)>;
using Body = std::function<void(Communicator& all, Ranks& ranks, size_t n)>;

void for_sizes(Ranks& ranks, const Make& make, const Body& body) {
  for (size_t n : kSizes) {
    INFO(n << " elements");
    const auto all = make(ranks);
    body(*all, ranks, n);
  }
}

std::unique_ptr<Transport> synchronous_transport(Ranks& ranks) {
  return MpiTransport::make_world(world(), &ranks.node_memory, {.synchronous_sends = true});
}
std::unique_ptr<Communicator> synchronous_world(Ranks& ranks) {
  return std::make_unique<Communicator>(synchronous_transport(ranks));
}

void on_cpu(const Body& body) {
  INFO("CPU");
  Ranks ranks;
  for_sizes(ranks, synchronous_world, body);
}

void staged(const Body& body) {
  const auto device = device_for_tests();
  if (!device) return;
  INFO("staged");
  Ranks ranks(*device);
  const auto make = [&](Ranks& r) {
    return std::make_unique<Communicator>(StagedTransport::make(synchronous_transport(r), *device));
  };
  for_sizes(ranks, make, body);
}

void by_nccl(const Body& body) {
  const auto device = device_for_nccl();
  if (!device) return;
  INFO("NCCL");
  Ranks ranks(*device);
  for_sizes(
      ranks, [](Ranks& r) { return nccl_world(r); }, body);
}

constexpr CallOptions kBackground = {.purpose = Purpose::activation, .background = true};
constexpr CallOptions kForeground = {.purpose = Purpose::activation};

void pass_around(Communicator& all, Ranks& ranks, size_t n) {
  const size_t to = (all.rank() + 1) % all.size(),
               from = (all.rank() + all.size() - 1) % all.size();
  const Buffers first(ranks, n), second(ranks, n);
  Work sends[] = {all.send(ranks.stream, first.out, to, kBackground),
                  all.send(ranks.stream, second.out, to, kBackground)};
  all.recv(ranks.stream, first.in, from, kForeground).wait(ranks.stream);
  all.recv(ranks.stream, second.in, from, kForeground).wait(ranks.stream);
  for (Work& send : sends) send.wait(ranks.stream);
  first.require_from(ranks, from);
  second.require_from(ranks, from);
}

// On a device's queue a recv stands behind the sends before it, NCCL's too: that ring would hang.
TEST_CASE("a ring: every rank sends in the background, then receives") {
  on_cpu(pass_around);
  staged(pass_around);
}

// Stage i sends down to i + 1 while that sends up, and both receive only then.
void cross(Communicator& all, Ranks& ranks, size_t n) {
  const auto down = all.split_axis(Axis::pipeline, 0), up = all.split_axis(Axis::pipeline, 0);
  const size_t me = all.rank();
  const bool has_next = me + 1 < all.size(), has_last = me > 0;
  for (int round = 0; round < 2; ++round) {
    const Buffers downwards(ranks, n), upwards(ranks, n);
    Work sent_down, sent_up;
    if (has_next) sent_down = down->send(ranks.stream, downwards.out, me + 1, kBackground);
    if (has_last) sent_up = up->send(ranks.stream, upwards.out, me - 1, kBackground);
    if (has_last) down->recv(ranks.stream, downwards.in, me - 1, kForeground).wait(ranks.stream);
    if (has_next) up->recv(ranks.stream, upwards.in, me + 1, kForeground).wait(ranks.stream);
    sent_down.wait(ranks.stream);
    sent_up.wait(ranks.stream);
    if (has_last) downwards.require_from(ranks, me - 1);
    if (has_next) upwards.require_from(ranks, me + 1);
  }
}

TEST_CASE("stages send to each other on two communicators before either receives") {
  on_cpu(cross);
  staged(cross);
  by_nccl(cross);
}

// The receiver comes much later than the sender, and the other way round: both sleep meanwhile.
TEST_CASE("a message whose other side is late arrives") {
  on_cpu([](Communicator& all, Ranks& ranks, size_t n) {
    const Buffers buffers(ranks, n);
    const bool sends = all.rank() % 2 == 0;
    const size_t peer = all.rank() ^ 1;
    for (bool late_sender : {false, true}) {
      if (sends == late_sender) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (sends) all.send(ranks.stream, buffers.out, peer, kForeground).wait(ranks.stream);
      if (!sends) all.recv(ranks.stream, buffers.in, peer, kForeground).wait(ranks.stream);
    }
    if (!sends) buffers.require_from(ranks, peer);
  });
}

// One rank of two sends at once and comes late to the sum; the other would receive before it.
void receive_after_a_sum(Communicator& all, Ranks& ranks) {
  const size_t me = all.rank(), size = all.size();
  for (int round = 0; round < 5; ++round) {
    const TensorView sum = ranks.take<int32_t>(Place::registered, 5000), first = sum.rows(0, 1);
    int32_t own = -1;  // so short that MPI does keep it
    const TensorView message(&own, DType::int32, DeviceType::cpu, {1});
    fill<int32_t>(sum, [&](size_t) { return me + 1; });
    if (me % 2 == 0) {
      all.send(ranks.stream, message, me + 1, kForeground).wait(ranks.stream);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    Work reduced = all.all_reduce(ranks.stream, sum, kBackground);
    if (me % 2 == 1) all.recv(ranks.stream, first, me - 1, kForeground).wait(ranks.stream);
    reduced.wait(ranks.stream);
    const size_t expected = size * (size + 1) / 2;
    require_elements<int32_t>(
        sum, [&](size_t i) { return i == 0 && me % 2 == 1 ? -1 : static_cast<int32_t>(expected); });
    ranks.release(all, {sum});
  }
}

TEST_CASE("a recv waits for collectives in the background before it") {
  Ranks ranks;
  for (NodeMemory* node_memory : {&ranks.node_memory, static_cast<NodeMemory*>(nullptr)}) {
    INFO((node_memory == nullptr ? "by messages" : "shared memory"));
    receive_after_a_sum(*make_communicator(world(), node_memory), ranks);
  }
}

// The sender waits in shared memory, where MPI moves no messages.
TEST_CASE("NCCL: what has been sent arrives whatever its sender does next") {
  by_nccl([](Communicator& all, Ranks& ranks, size_t n) {
    const Buffers buffers(ranks, n);
    const bool sends = all.rank() % 2 == 0;
    if (sends) {
      all.send(ranks.stream, buffers.out, all.rank() + 1, kForeground).wait(ranks.stream);
      ranks.stream.synchronize();
      Ranks::guard_everything(buffers.out);
    } else {
      all.recv(ranks.stream, buffers.in, all.rank() - 1, kForeground).wait(ranks.stream);
    }
    all.barrier();
    if (!sends) buffers.require_from(ranks, all.rank() - 1);
  });
}

}  // namespace
}  // namespace ladder::testing
