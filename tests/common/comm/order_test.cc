// The order of things: of summation, of background operations, of two communicators at once; and
// what was counted on the way.
#include <unistd.h>

#include <cstring>
#include <vector>

#include "common/grid/process_grid.h"
#include "tests/catch.h"
#include "tests/common/comm/devices.h"

namespace ladder::testing {
namespace {

// Inputs whose sum in fp32 depends on the order, 2^15 + 0.0011 being 2^15; with other bits where
// partial sums are rounded to 16 bits.
template <class T>
T touchy(size_t rank, size_t i) {
  const float values[] = {32768, 0.0015F, -32768, 0.0011F, 0.0013F, 0.0017F, 0.0009F, -0.0007F};
  return number<T>(values[(rank + i) % 8] * (1.0F + static_cast<float>(i % 13) / 16));
}

// One after the other from rank `first`; Partial is what partial sums are.
template <class T, class Partial>
T in_order(size_t first, size_t size, size_t i) {
  Partial sum = number<Partial>(touchy<T>(first % size, i));
  for (size_t r = 1; r < size; ++r) {
    sum = number<Partial>(static_cast<float>(sum) +
                          static_cast<float>(touchy<T>((first + r) % size, i)));
  }
  return number<T>(sum);
}

template <class T>
std::vector<T> copy_of(const TensorView& view) {
  const T* const x = view.as<T>();
  return std::vector<T>(x, x + view.num_elements());
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// bf16 and fp16 are summed in fp32 and rounded once.
TEMPLATE_TEST_CASE(
    "sums are taken in rank order, by every operation, on every path, in any segments", "", float,
    bfloat16, float16) {
  using T = TestType;
  constexpr size_t kElements = 8 * 16 * 37;
  Ranks ranks;
  std::vector<T> expected(kElements), another(kElements), rounded(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    expected[i] = in_order<T, float>(0, world().size(), i);
    another[i] = in_order<T, float>(1, world().size(), i);
    rounded[i] = in_order<T, T>(0, world().size(), i);
  }
  REQUIRE(!same_bits(expected, another));  // the order does matter, and so does rounding
  REQUIRE(same_bits(expected, rounded) == std::is_same_v<T, float>);

  for (NodeMemory* node_memory : {&ranks.node_memory, static_cast<NodeMemory*>(nullptr)}) {
    for (size_t segment : {7, 64, 1000, 1 << 20}) {
      const auto all = make_communicator(world(), node_memory, {.segment_elements = segment});
      for (Place place : kPlaces) {
        INFO(name_of(place) << ", segments of " << segment);
        const auto inputs = [&] {
          const TensorView buffer = ranks.take<T>(place, kElements);
          fill<T>(buffer, [&](size_t i) { return touchy<T>(all->rank(), i); });
          return buffer;
        };
        const TensorView whole = inputs(), sharded = inputs(), rooted = inputs();
        all->all_reduce(ranks.stream, whole, {}).wait(ranks.stream);
        REQUIRE(same_bits(copy_of<T>(whole), expected));

        const size_t n = kElements / all->size();
        const TensorView shard = sharded.elements(all->rank() * n, {n});
        all->reduce_scatter(ranks.stream, shard, sharded, {}).wait(ranks.stream);
        all->all_gather(ranks.stream, sharded, shard, {}).wait(ranks.stream);
        REQUIRE(same_bits(copy_of<T>(sharded), expected));

        all->reduce(ranks.stream, rooted, 3, {}).wait(ranks.stream);
        if (all->rank() == 3) REQUIRE(same_bits(copy_of<T>(rooted), expected));
        ranks.release(*all, {whole, sharded, rooted});
      }
    }
  }
}

// max, then sum, gives size * size; the other way round size * (size + 1) / 2.
TEST_CASE("background operations run in the order of their calls") {
  Ranks ranks;
  const auto all = make_communicator(world(), &ranks.node_memory);
  const size_t size = all->size();
  for (bool last_in_background : {true, false}) {
    for (Place place : kPlaces) {
      for (int round = 0; round < 50; ++round) {
        const TensorView x = ranks.take<int32_t>(place, 40);
        fill<int32_t>(x, [&](size_t) { return all->rank() + 1; });
        Work first = all->all_reduce(ranks.stream, x, {Purpose::control, Reduction::max, true});
        Work second = all->all_reduce(ranks.stream, x,
                                      {Purpose::control, Reduction::sum, last_in_background});
        second.wait(ranks.stream);
        require_elements<int32_t>(x, [&](size_t) { return size * size; });
        first.wait(ranks.stream);
        ranks.release(*all, {x});
      }
    }
  }
}

// Where nobody looks again by himself, a rank that is not woken by the last one to come sleeps on:
// the alarm, much later than all this takes, ends it.
TEST_CASE("who sleeps until the others have come is woken") {
  alarm(100);
  Ranks ranks;
  for (int group = 0; group < 20; ++group) {  // at its beginning, too
    const auto all =
        make_communicator(world(), &ranks.node_memory, {.longest_sleep_seconds = 3600});
    const TensorView x = ranks.take<int32_t>(Place::registered, 40);
    for (int round = 0; round < 20; ++round) {
      fill<int32_t>(x, [&](size_t) { return round; });
      all->all_reduce(ranks.stream, x, {.reduction = Reduction::max}).wait(ranks.stream);
      require_elements<int32_t>(x, [&](size_t) { return round; });
      all->barrier();
    }
    ranks.release(*all, {x});
  }
  alarm(0);
}

// Half of the ranks begin with their row, the others with their column.
TEST_CASE("operations of two communicators at once do not wait for each other") {
  Ranks ranks;
  const auto all = make_communicator(world(), &ranks.node_memory);
  const ProcessGrid grid = {1, 2, 1, 4, all->rank()};
  const auto row = all->split(grid.group_rank(Axis::data)),
             column = all->split(grid.group_rank(Axis::tensor));
  REQUIRE(row->size() == 4);
  REQUIRE(column->size() == 2);
  const auto sum_of = [](size_t first, size_t count, size_t stride) {
    size_t sum = 0;
    for (size_t r = 0; r < count; ++r) sum += first + r * stride + 1;
    return sum;
  };
  const CallOptions background = {.purpose = Purpose::gradient, .background = true};
  for (Place place : kPlaces) {
    for (int round = 0; round < 50; ++round) {
      const TensorView a = ranks.take<double>(place, 3000), b = ranks.take<double>(place, 3000);
      for (const TensorView& x : {a, b}) fill<double>(x, [&](size_t) { return all->rank() + 1; });
      Work of_row, of_column;
      if (all->rank() % 2 == 0) {
        of_row = row->all_reduce(ranks.stream, a, background);
        of_column = column->all_reduce(ranks.stream, b, background);
      } else {
        of_column = column->all_reduce(ranks.stream, b, background);
        of_row = row->all_reduce(ranks.stream, a, background);
      }
      of_column.wait(ranks.stream);
      of_row.wait(ranks.stream);
      require_elements<double>(
          a, [&](size_t) { return sum_of(grid.group_rank(Axis::data) * 4, 4, 1); });
      require_elements<double>(b,
                               [&](size_t) { return sum_of(grid.group_rank(Axis::tensor), 2, 4); });
      ranks.release(*all, {a, b});
    }
  }
}

// Six operations, each of a key of its own, in a group whose ranks share out what moves in their
// own way; all of them together have moved what the formula says, on every path. `machine_of` has
// the machine of each rank of the group; empty = all are on one.
void require_moved(Communicator& group, Ranks& ranks, Place place, size_t n,
                   std::vector<size_t> machine_of = {}) {
  if (machine_of.empty()) machine_of.assign(group.size(), 0);
  const size_t size = group.size(), bytes = size * n * sizeof(double);
  const TensorView buffer = ranks.take<double>(place, size * n);
  const TensorView other = ranks.take<double>(place, size * n);
  const TensorView shard = buffer.elements(group.rank() * n, {n});
  const CallOptions gradient = {.purpose = Purpose::gradient}, weights = {Purpose::parameter};
  Stream& stream = ranks.stream;
  constexpr size_t kRounds = 2;
  for (size_t round = 0; round < kRounds; ++round) {
    group.all_reduce(stream, buffer, gradient).wait(stream);
    group.reduce_scatter(stream, shard, buffer, gradient).wait(stream);
    group.all_gather(stream, buffer, shard, weights).wait(stream);
    group.all_to_all(stream, other, buffer, weights).wait(stream);
    group.broadcast(stream, buffer, size - 1, weights).wait(stream);
    group.reduce(stream, buffer, size - 1, gradient).wait(stream);
    if (size == 1) continue;
    const size_t to = (group.rank() + 1) % size, from = (group.rank() + size - 1) % size;
    Work sent = group.send(stream, buffer, to, {Purpose::activation, Reduction::sum, true});
    group.recv(stream, other, from, {.purpose = Purpose::activation}).wait(stream);
    sent.wait(stream);
  }
  group.barrier();
  const TrafficEntries entries = group.group_entries();
  CHECK(entries == group.ledger().entries());  // calls and payload
  CHECK(entries.size() == (size == 1 ? 7 : 9));
  for (const auto& [key, traffic] : entries) {
    INFO(name_of(key) << " of " << size << " x " << n);
    if (key.collective == Collective::barrier) continue;
    CHECK(traffic.calls == kRounds);
    CHECK(traffic.payload_bytes == kRounds * bytes);
    CHECK(traffic.moved.bytes == kRounds * group_bytes(key.collective, size, bytes));
    CHECK_FALSE(traffic.by_formula);
    const std::vector<size_t> sender_and_receiver = {machine_of[group.rank()],
                                                     machine_of[(group.rank() + 1) % size]};
    const bool is_send = key.collective == Collective::send;
    CHECK(traffic.moved.between ==
          kRounds *
              bytes_between(key.collective, is_send ? sender_and_receiver : machine_of, bytes));
  }
  ranks.release(group, {buffer, other});
}

TEST_CASE("the bytes that move between ranks are those of the formula, on every path") {
  Ranks ranks;
  for (NodeMemory* node_memory : {&ranks.node_memory, static_cast<NodeMemory*>(nullptr)}) {
    const auto all = make_communicator(world(), node_memory, {.segment_elements = 50});
    for_groups(*all, [&](Communicator& group) {
      for (Place place : {Place::registered, Place::unregistered}) {
        INFO((node_memory == nullptr ? "by messages, " : "shared memory, ") << name_of(place));
        const auto apart = group.split(0);  // with a ledger that is empty
        // Slices that are equal, and such as some ranks have nothing of.
        require_moved(*apart, ranks, place, 16 * 5);
        const auto uneven = group.split(0);
        require_moved(*uneven, ranks, place, 3);
      }
    });
  }
  const std::vector<size_t> machine_of = {0, 0, 0, 1, 1, 2, 1, 3};
  const auto machines = make_communicator(world(), &ranks.node_memory,
                                          {.segment_elements = 50, .machine_of = machine_of});
  for (size_t n : {80, 3}) {
    const auto apart = machines->split(0);
    require_moved(*apart, ranks, Place::registered, n, machine_of);
  }
  const auto device = device_for_tests();
  if (!device) return;
  Ranks on_device(*device);
  for (size_t n : {80, 3}) {
    require_moved(*staged_world(on_device, 1000), on_device, Place::device, n);
  }
}

// What each machine adds up, in T, is added up one machine after the other.
template <class T>
T by_machine(const std::vector<size_t>& machine_of, size_t i) {
  const Machines machines(machine_of, 0);
  float total = 0;
  for (size_t machine = 0; machine < machines.size(); ++machine) {
    float sum = 0;
    for (size_t r : machines.ranks(machine)) sum += static_cast<float>(touchy<T>(r, i));
    total += static_cast<float>(number<T>(sum));
  }
  return number<T>(total);
}

TEMPLATE_TEST_CASE("between machines the sums of machines are added, in their order", "", float,
                   bfloat16) {
  using T = TestType;
  Ranks ranks;
  const std::vector<size_t> machine_of = {0, 1, 0, 0, 1, 2, 3, 3};
  const auto all = make_communicator(world(), &ranks.node_memory,
                                     {.segment_elements = 50, .machine_of = machine_of});
  constexpr size_t n = 301;
  const TensorView whole = ranks.take<T>(Place::registered, 8 * n);
  const TensorView scattered = ranks.take<T>(Place::registered, 8 * n);
  const TensorView rooted = ranks.take<T>(Place::registered, 8 * n);
  for (const TensorView& view : {whole, scattered, rooted}) {
    fill<T>(view, [&](size_t i) { return touchy<T>(all->rank(), i); });
  }
  const size_t mine = all->rank() * n, root = 4;
  all->all_reduce(ranks.stream, whole, {}).wait(ranks.stream);
  const TensorView shard = scattered.elements(mine, {n});
  all->reduce_scatter(ranks.stream, shard, scattered, {}).wait(ranks.stream);
  all->reduce(ranks.stream, rooted, root, {}).wait(ranks.stream);
  require_elements<T>(whole, [&](size_t i) { return by_machine<T>(machine_of, i); });
  require_elements<T>(shard, [&](size_t i) { return by_machine<T>(machine_of, mine + i); });
  if (all->rank() == root) {
    require_elements<T>(rooted, [&](size_t i) { return by_machine<T>(machine_of, i); });
  }
  ranks.release(*all, {whole, scattered, rooted});
}

// They add up to the same for the mean rank, but where a root has less to do than the others.
TEST_CASE("bytes of all ranks and bytes on the wire are one formula") {
  const Collective shared_out[] = {Collective::all_reduce, Collective::reduce_scatter,
                                   Collective::all_gather, Collective::all_to_all};
  for (size_t size : {1, 2, 8}) {
    for (Collective collective : shared_out) {
      CHECK(static_cast<double>(group_bytes(collective, size, 800)) ==
            static_cast<double>(size) * wire_bytes(collective, size, 800));
    }
    for (Collective collective : {Collective::broadcast, Collective::reduce}) {
      CHECK(group_bytes(collective, size, 800) == (size - 1) * 800);
      CHECK(wire_bytes(collective, size, 800) == (size > 1 ? 800 : 0));
    }
    CHECK(group_bytes(Collective::send, size, 800) == (size > 1 ? 800 : 0));
    CHECK(group_bytes(Collective::recv, size, 800) == 0);
  }
  CHECK(group_bytes(Collective::all_reduce, 4, 800) == 2 * 3 * 800);
}

TEST_CASE("by NCCL, nobody counts what moves") {
  const auto device = device_for_nccl();
  if (!device) return;
  Ranks ranks(*device);
  const auto all = nccl_world(ranks);
  const TensorView x = ranks.take<float>(Place::device, 80);
  double on_host = 1;
  all->all_reduce(ranks.stream, x, {.purpose = Purpose::gradient}).wait(ranks.stream);
  all->all_reduce(ranks.stream, {&on_host, DType::fp64, DeviceType::cpu, {1}}, {})
      .wait(ranks.stream);
  const TrafficEntries entries = all->ledger().entries();
  const Traffic& by_nccl = entries.at({Purpose::gradient, Collective::all_reduce});
  CHECK(by_nccl.by_formula);
  CHECK(static_cast<double>(by_nccl.moved.bytes) ==
        wire_bytes(Collective::all_reduce, all->size(), 320));
  CHECK_FALSE(entries.at({Purpose::control, Collective::all_reduce}).by_formula);
}

}  // namespace
}  // namespace ladder::testing
