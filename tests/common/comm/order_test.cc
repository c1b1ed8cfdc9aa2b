// The order of things: of summation, of background operations, of two communicators at once; and
// what was counted on the way.
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "common/comm/process_grid.h"
#include "tests/common/comm/ranks.h"

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
TEMPLATE_TEST_CASE("sums are taken in rank order, by every operation, on every path, in any pieces",
                   "", float, bfloat16, float16) {
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
    for (size_t piece : {7, 64, 1000, 1 << 20}) {
      const auto all = MpiCommunicator::make_world(world(), node_memory, {.piece_elements = piece});
      for (Place place : kPlaces) {
        INFO(name_of(place) << ", pieces of " << piece);
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
  const auto all = MpiCommunicator::make_world(world(), &ranks.node_memory);
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

// Half of the ranks begin with their row, the others with their column.
TEST_CASE("operations of two communicators at once do not wait for each other") {
  Ranks ranks;
  const auto all = MpiCommunicator::make_world(world(), &ranks.node_memory);
  const ProcessGrid grid = {1, 2, 4, all->rank()};
  const auto row = all->split(grid.data_rank()), column = all->split(grid.tensor_rank());
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
      require_elements<double>(a, [&](size_t) { return sum_of(grid.data_rank() * 4, 4, 1); });
      require_elements<double>(b, [&](size_t) { return sum_of(grid.tensor_rank(), 2, 4); });
      ranks.release(*all, {a, b});
    }
  }
}

TEST_CASE("the ledger and the bytes that moved agree") {
  Ranks ranks;
  const auto world_ranks = MpiCommunicator::make_world(world(), &ranks.node_memory);
  for_groups(*world_ranks, [&](Communicator& group) {
    if (group.size() == 1) return;
    auto& counted = dynamic_cast<MpiCommunicator&>(group);
    const size_t size = group.size(), n = size * 16 * 5, bytes = n * sizeof(double);
    const TensorView buffer = ranks.take<double>(Place::registered, n);
    const TensorView other = ranks.take<double>(Place::registered, n);
    const TensorView shard = buffer.elements(group.rank() * n / size, {n / size});
    const CallOptions gradient = {.purpose = Purpose::gradient}, weights = {Purpose::parameter};
    Ledger::Entries expected;
    size_t moved_before = 0;
    // Waits for a call and compares what it has added with what it should have. The formula is per
    // rank, which a root's operation does not share out equally: there all ranks together count.
    const auto account = [&](Work work, Purpose purpose, Collective collective, double moved) {
      work.wait(ranks.stream);
      Traffic& traffic = expected[{purpose, collective}];
      ++traffic.calls;
      traffic.payload_bytes += bytes;
      REQUIRE(group.ledger().entries() == expected);
      REQUIRE(static_cast<double>(counted.shared_bytes() - moved_before) == moved);
      moved_before = counted.shared_bytes();
    };
    const auto wire = [&](Collective collective) { return wire_bytes(collective, size, bytes); };
    const double part = static_cast<double>(bytes) / static_cast<double>(size);
    const double others = static_cast<double>(size - 1);
    REQUIRE(wire(Collective::all_reduce) == 2 * others * part);
    REQUIRE(wire(Collective::reduce_scatter) == others * part);
    for (int call = 0; call < 2; ++call) {
      account(group.all_reduce(ranks.stream, buffer, gradient), Purpose::gradient,
              Collective::all_reduce, wire(Collective::all_reduce));
      account(group.reduce_scatter(ranks.stream, shard, buffer, gradient), Purpose::gradient,
              Collective::reduce_scatter, wire(Collective::reduce_scatter));
      account(group.all_gather(ranks.stream, buffer, shard, weights), Purpose::parameter,
              Collective::all_gather, wire(Collective::all_gather));
      account(group.all_to_all(ranks.stream, other, buffer, weights), Purpose::parameter,
              Collective::all_to_all, wire(Collective::all_to_all));
      const bool root = group.rank() == 0;
      account(group.broadcast(ranks.stream, buffer, 0, weights), Purpose::parameter,
              Collective::broadcast, root ? 0 : wire(Collective::broadcast));
      account(group.reduce(ranks.stream, buffer, 0, gradient), Purpose::gradient,
              Collective::reduce, root ? others * wire(Collective::reduce) : 0);
    }
    ranks.release(group, {buffer, other});
  });
}

}  // namespace
}  // namespace ladder::testing
