// Every operation, in groups of 1 to 8 ranks, on every kind of memory, bit for bit.
#include <cmath>
#include <limits>
#include <span>

#include "tests/catch.h"
#include "tests/common/comm/devices.h"
#include "tests/sample.h"

namespace ladder::testing {
namespace {

constexpr size_t kSegment = 1000;  // elements: whole vectors of some cases need several segments
// Zero elements are a call like any other: compared with the peers', moving nothing.
constexpr size_t kCounts[] = {0, 1, 17, 8 * 16, 3001};
// Of a shard; the whole vector is `size` times as long.
constexpr size_t kShards[] = {0, 1, 5, 16, 1501};

// One call of one group, as each rank sees it.
struct Case {
  Ranks& ranks;
  Communicator& group;
  size_t first;  // the group's first rank among all
  Place place;
  size_t n;
  bool background;

  CallOptions options(Reduction reduction = Reduction::sum) const {
    return {Purpose::gradient, reduction, background};
  }
  size_t size() const { return group.size(); }
  // The rank among all of the group's rank r; value() goes by it.
  size_t global(size_t r) const { return first + r; }
  size_t own() const { return global(group.rank()); }

  template <class T>
  TensorView take(size_t elements) const {
    return ranks.take<T>(place, elements);
  }
  // A buffer that holds this rank's values.
  template <class T>
  TensorView values(size_t elements) const {
    const TensorView view = take<T>(elements);
    fill<T>(view, [&](size_t i) { return value(own(), i); });
    return view;
  }
  // Until the host may look at the result.
  void wait(Work work) const {
    work.wait(ranks.stream);
    ranks.stream.synchronize();
  }
};

template <class T>
void test_all_reduce(const Case& c) {
  for (Reduction reduction : {Reduction::sum, Reduction::max}) {
    const TensorView buffer = c.values<T>(c.n);
    c.wait(c.group.all_reduce(c.ranks.stream, buffer, c.options(reduction)));
    require_elements<T>(buffer, [&](size_t i) { return reduced(reduction, c.first, c.size(), i); });
    c.ranks.release(c.group, {buffer});
  }
}

template <class T>
void test_reduce_scatter(const Case& c) {
  const size_t n = c.n, mine = c.group.rank() * n;
  const auto expected = [&](size_t i) {
    return reduced(Reduction::sum, c.first, c.size(), mine + i);
  };
  {
    const TensorView buffer = c.values<T>(c.size() * n), shard = buffer.elements(mine, {n});
    c.wait(c.group.reduce_scatter(c.ranks.stream, shard, buffer, c.options()));
    require_elements<T>(shard, expected);
    c.ranks.release(c.group, {buffer});
  }
  const TensorView buffer = c.values<T>(c.size() * n), shard = c.take<T>(n);
  c.wait(c.group.reduce_scatter(c.ranks.stream, shard, buffer, c.options()));
  require_elements<T>(shard, expected);
  require_elements<T>(buffer, [&](size_t i) { return value(c.own(), i); });
  c.ranks.release(c.group, {buffer, shard});
}

// In place the rest of the buffer keeps its values.
template <class T>
void test_reduce_scatter_keeps_the_rest(const Case& c) {
  const size_t n = c.n, mine = c.group.rank() * n;
  const TensorView buffer = c.values<T>(c.size() * n);
  c.wait(c.group.reduce_scatter(c.ranks.stream, buffer.elements(mine, {n}), buffer, c.options()));
  require_elements<T>(buffer, [&](size_t i) {
    const bool in_shard = i >= mine && i < mine + n;
    return in_shard ? reduced(Reduction::sum, c.first, c.size(), i) : value(c.own(), i);
  });
  c.ranks.release(c.group, {buffer});
}

template <class T>
void test_all_gather(const Case& c) {
  const size_t n = c.n;
  const auto expected = [&](size_t i) { return value(c.global(i / n), i % n); };
  const TensorView buffer = c.take<T>(c.size() * n), shard = c.values<T>(n);
  c.wait(c.group.all_gather(c.ranks.stream, buffer, shard, c.options()));
  require_elements<T>(buffer, expected);
  require_elements<T>(shard, [&](size_t i) { return value(c.own(), i); });
  c.ranks.release(c.group, {buffer, shard});

  const TensorView in_place = c.take<T>(c.size() * n);
  const TensorView own = in_place.elements(c.group.rank() * n, {n});
  fill<T>(own, [&](size_t i) { return value(c.own(), i); });
  c.wait(c.group.all_gather(c.ranks.stream, in_place, own, c.options()));
  require_elements<T>(in_place, expected);
  c.ranks.release(c.group, {in_place});
}

template <class T>
void test_all_to_all(const Case& c) {
  const size_t n = c.n, mine = c.group.rank() * n;
  const TensorView out = c.take<T>(c.size() * n), in = c.values<T>(c.size() * n);
  c.wait(c.group.all_to_all(c.ranks.stream, out, in, c.options()));
  require_elements<T>(out, [&](size_t i) { return value(c.global(i / n), mine + i % n); });
  require_elements<T>(in, [&](size_t i) { return value(c.own(), i); });
  c.ranks.release(c.group, {out, in});
}

// Every pair another count, some of them 0, and those of one rank all 0.
template <class T>
void test_all_to_all_with_counts(const Case& c) {
  const size_t size = c.size(), me = c.group.rank();
  std::vector<size_t> pairs(size * size);
  for (size_t from = 0; from < size; ++from) {
    for (size_t to = 0; to < size; ++to) pairs[from * size + to] = (from + 2 * to) % 4 * c.n;
  }
  for (size_t from = 0; from < size; ++from) pairs[from * size + size / 2] = 0;
  const PairCounts counts(size, pairs);
  const TensorView out = c.take<T>(counts.received(me)), in = c.values<T>(counts.sent(me));
  const TensorView back = c.take<T>(counts.sent(me));
  c.wait(c.group.all_to_all(c.ranks.stream, out, in, counts, c.options()));
  c.wait(c.group.all_to_all(c.ranks.stream, back, out, counts.reversed(), c.options()));
  for (size_t from = 0; from < size; ++from) {
    const TensorView part = out.elements(counts.begin_received(from, me), {counts.of(from, me)});
    require_elements<T>(
        part, [&](size_t i) { return value(c.global(from), counts.begin_sent(from, me) + i); });
  }
  require_elements<T>(back, [&](size_t i) { return value(c.own(), i); });
  c.ranks.release(c.group, {out, in, back});
}

template <class T>
void test_roots(const Case& c) {
  for (size_t root = 0; root < c.size(); ++root) {
    const TensorView sent = c.values<T>(c.n), summed = c.values<T>(c.n);
    c.wait(c.group.broadcast(c.ranks.stream, sent, root, c.options()));
    c.wait(c.group.reduce(c.ranks.stream, summed, root, c.options()));
    require_elements<T>(sent, [&](size_t i) { return value(c.global(root), i); });
    require_elements<T>(summed, [&](size_t i) {
      return c.group.rank() == root ? reduced(Reduction::sum, c.first, c.size(), i)
                                    : value(c.own(), i);
    });
    c.ranks.release(c.group, {sent, summed});
  }
}

// Around the ring, ranks of one parity sending first.
template <class T>
void test_send_recv(const Case& c) {
  if (c.size() == 1) return;
  const size_t me = c.group.rank(), to = (me + 1) % c.size(), from = (me + c.size() - 1) % c.size();
  for (size_t parity : {0, 1}) {
    const TensorView out = c.values<T>(c.n), in = c.take<T>(c.n);
    const auto send = [&] { c.wait(c.group.send(c.ranks.stream, out, to, c.options())); };
    const auto recv = [&] { c.wait(c.group.recv(c.ranks.stream, in, from, c.options())); };
    if (me % 2 == parity) {
      send();
      recv();
    } else {
      recv();
      send();
    }
    require_elements<T>(in, [&](size_t i) { return value(c.global(from), i); });
    c.ranks.release(c.group, {out, in});
  }
}

template <class T>
void test_operations(const Case& c, std::span<const size_t> counts,
                     std::span<const size_t> shards) {
  Case one = c;
  for (size_t n : counts) {
    one.n = n;
    INFO(n << " elements");
    test_all_reduce<T>(one);
    test_send_recv<T>(one);
    if (n != 3001 || c.size() == 3) test_roots<T>(one);  // the long ones in one group only
  }
  for (size_t n : shards) {
    one.n = n;
    INFO("shards of " << n);
    test_reduce_scatter<T>(one);
    test_reduce_scatter_keeps_the_rest<T>(one);
    test_all_gather<T>(one);
    test_all_to_all<T>(one);
    test_all_to_all_with_counts<T>(one);
  }
}

template <class T>
void test_everywhere(Communicator& all, Ranks& ranks, std::span<const Place> places) {
  for_groups(all, [&](Communicator& group) {
    const size_t first = all.rank() - group.rank();
    Sample sample(2, group.size());
    for (Place place : places) {
      for (bool background : {false, true}) {
        if (!sample.takes()) continue;
        INFO(group.size() << " ranks, " << name_of(dtype_of<T>) << ", " << name_of(place)
                          << (background ? ", background" : ""));
        test_operations<T>({ranks, group, first, place, 0, background}, kCounts, kShards);
      }
    }
  });
}

// What differs between bf16 and fp16, the arithmetic, is in order_test.cc.
TEMPLATE_TEST_CASE("every operation moves and sums what it says", "", float, double, int32_t,
                   bfloat16) {
  Ranks ranks;
  const auto all = make_communicator(world(), &ranks.node_memory, {.segment_elements = kSegment});
  test_everywhere<TestType>(*all, ranks, kPlaces);
}

TEMPLATE_TEST_CASE("the same without shared memory", "", float, double, int32_t, bfloat16,
                   float16) {
  Ranks ranks;
  const Place places[] = {Place::unregistered};
  const auto all = make_communicator(world(), nullptr, {.segment_elements = kSegment});
  test_everywhere<TestType>(*all, ranks, places);
}

// The machines of eight ranks, in order, in turns, and of different sizes.
const std::vector<size_t> kMachines[] = {{0, 0, 0, 0, 1, 1, 1, 1},
                                         {0, 1, 0, 1, 0, 1, 0, 1},
                                         {0, 0, 0, 1, 2, 2, 3, 3},
                                         {0, 1, 2, 3, 4, 5, 6, 6}};

// Buffers are registered on all ranks or on none.
TEMPLATE_TEST_CASE("the same between machines", "", double, bfloat16) {
  Ranks ranks;
  const Place places[] = {Place::shifted, Place::unregistered};
  for (const std::vector<size_t>& machine_of : kMachines) {
    CAPTURE(machine_of);
    const auto all = make_communicator(world(), &ranks.node_memory,
                                       {.segment_elements = kSegment, .machine_of = machine_of});
    test_everywhere<TestType>(*all, ranks, places);
  }
}

// Whole numbers are exact in any order of summation, NCCL's too.
constexpr Place kDevicePlaces[] = {Place::device};

TEMPLATE_TEST_CASE("the same on a device, by NCCL", "", float, double, int32_t, bfloat16, float16) {
  const std::optional<DeviceType> device = device_for_nccl();
  if (!device) return;
  Ranks ranks(*device);
  const auto all = nccl_world(ranks);
  test_everywhere<TestType>(*all, ranks, kDevicePlaces);
}

TEMPLATE_TEST_CASE("the same on a device, staged", "", float, double, int32_t, bfloat16) {
  const std::optional<DeviceType> device = device_for_tests();
  if (!device) return;
  Ranks ranks(*device);
  const auto all = staged_world(ranks, kSegment * sizeof(TestType));
  test_everywhere<TestType>(*all, ranks, kDevicePlaces);
}

// What five ranks or more give to element i, by turns: an infinity on one of them; infinities of
// both signs; NaN on one; the largest number on all; it twice, less it.
template <class T>
float special(size_t rank, size_t size, size_t i) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::is_same_v<T, float16> ? 0x1.FFCp15F : 0x1.FEp127F;
  switch (i % 5) {
    case 0:
      return rank == 2 ? kInfinity : 1;
    case 1:
      return rank == 0 ? kInfinity : -kInfinity;
    case 2:
      return rank + 1 == size ? std::numeric_limits<float>::quiet_NaN() : 1;
    case 3:
      return kLargest;
    default:
      return rank < 2 ? kLargest : rank == 2 ? -kLargest : 0;
  }
}

// One after the other in fp32, rounded once.
template <class T>
float special_sum(size_t size, size_t i) {
  float sum = special<T>(0, size, i);
  for (size_t r = 1; r < size; ++r) sum += special<T>(r, size, i);
  return number<T>(sum);
}

// Numbers of all kinds, and NaN with all kinds of bits.
template <class T>
T any_bits(size_t rank, size_t i) {
  return T::from_bits(static_cast<uint16_t>(i * 23 + rank * 4099));
}

template <class T>
void test_special(Communicator& all, Ranks& ranks, Place place, bool sums_in_rank_order) {
  INFO(name_of(dtype_of<T>) << ", " << name_of(place));
  const size_t me = all.rank(), size = all.size();
  constexpr size_t n = 37;
  const auto inputs = [&] {
    const TensorView view = ranks.take<T>(place, size * n);
    fill<T>(view, [&](size_t i) { return special<T>(me, size, i); });
    return view;
  };
  const auto check_sums = [&](const TensorView& view, size_t first) {
    ranks.stream.synchronize();
    const std::vector<T> x = to_host<T>(view);
    for (size_t i = 0; i < x.size(); ++i) {
      if ((first + i) % 5 == 4 && !sums_in_rank_order) continue;
      const float sum = x[i], expected = special_sum<T>(size, first + i);
      if (!(sum == expected) && !(std::isnan(sum) && std::isnan(expected))) {
        FAIL("element " << first + i << " is " << sum << ", not " << expected);
      }
    }
  };
  const TensorView whole = inputs(), scattered = inputs();
  all.all_reduce(ranks.stream, whole, {}).wait(ranks.stream);
  check_sums(whole, 0);
  const TensorView shard = scattered.elements(me * n, {n});
  all.reduce_scatter(ranks.stream, shard, scattered, {}).wait(ranks.stream);
  check_sums(shard, me * n);

  const TensorView moved = ranks.take<T>(place, 301), gathered = ranks.take<T>(place, size * 301);
  fill<T>(moved, [&](size_t i) { return any_bits<T>(me, i); });
  all.all_gather(ranks.stream, gathered, moved, {}).wait(ranks.stream);
  ranks.stream.synchronize();
  const std::vector<T> bits = to_host<T>(gathered);
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i].bits() != any_bits<T>(i / 301, i % 301).bits()) FAIL("other bits at " << i);
  }
  ranks.release(all, {whole, scattered, moved, gathered});
}

// fp16 overflows at 65,520; a sum that comes back from there in fp32 is finite.
TEMPLATE_TEST_CASE("infinities, NaN and what overflows", "", bfloat16, float16) {
  using T = TestType;
  CHECK(special_sum<float16>(8, 3) == std::numeric_limits<float>::infinity());
  CHECK(special_sum<float16>(8, 4) == 65504);
  Ranks ranks;
  for (NodeMemory* node_memory : {&ranks.node_memory, static_cast<NodeMemory*>(nullptr)}) {
    const auto all = make_communicator(world(), node_memory, {.segment_elements = 50});
    for (Place place : kPlaces) test_special<T>(*all, ranks, place, true);
  }
  if (const auto device = device_for_tests()) {
    Ranks on_device(*device);
    test_special<T>(*staged_world(on_device, 500), on_device, Place::device, true);
  }
  if (const auto device = device_for_nccl()) {
    Ranks on_device(*device);
    test_special<T>(*nccl_world(on_device), on_device, Place::device, false);
  }
}

TEST_CASE("a message larger than MPI buffers, both ways") {
  Ranks ranks;
  const auto all = make_communicator(world(), &ranks.node_memory);
  constexpr size_t kElements = (size_t{8} << 20) / sizeof(float) + 1;
  const Tensor out(ranks.memory, Category::communication, DType::fp32, {kElements});
  const Tensor in(ranks.memory, Category::communication, DType::fp32, {kElements});
  const size_t me = all->rank(), peer = me ^ 1;
  fill<float>(out, [&](size_t i) { return value(me, i); });
  for (size_t first : {0, 1}) {
    ranks.guard_everything(in);
    if (me % 2 == first) all->send(ranks.stream, out, peer, {}).wait(ranks.stream);
    all->recv(ranks.stream, in, peer, {}).wait(ranks.stream);
    if (me % 2 != first) all->send(ranks.stream, out, peer, {}).wait(ranks.stream);
    require_elements<float>(in, [&](size_t i) { return value(peer, i); });
  }
}

TEST_CASE("nobody passes a barrier before all have come") {
  Ranks ranks;
  for (NodeMemory* node_memory : {&ranks.node_memory, static_cast<NodeMemory*>(nullptr)}) {
    const auto all = make_communicator(world(), node_memory);
    volatile int32_t* const own = ranks.registered.view().as<int32_t>();
    for (int32_t round = 1; round <= 100; ++round) {
      own[0] = round;
      all->barrier();
      for (size_t r = 0; r < all->size(); ++r) {
        const volatile void* const theirs = ranks.node_memory.at({0, 0}, r);
        const int32_t seen = *static_cast<const volatile int32_t*>(theirs);
        if (seen < round) FAIL("rank " << r << " had not come");
      }
      all->barrier();
    }
  }
}

}  // namespace
}  // namespace ladder::testing
