// Groups along the axes of a grid: who is in them, what they count, and that they work at once.
#include "common/comm/grid_groups.h"

#include <functional>
#include <vector>

#include "common/comm/communicator.h"
#include "common/comm/one_rank.h"
#include "tests/common/comm/devices.h"

namespace ladder::testing {
namespace {

// Of 8 ranks, tensor last.
constexpr ProcessGrid kGrids[] = {{2, 2, 1, 2}, {4, 2, 1, 1}, {1, 2, 1, 4},
                                  {8, 1, 1, 1}, {1, 8, 1, 1}, {1, 1, 1, 8}};

ProcessGrid grid_at(ProcessGrid grid, size_t rank) {
  grid.rank = rank;
  return grid;
}

// Sum of (rank + 1) over the ranks of the run that `belongs` takes.
double sum_of(ProcessGrid grid, const std::function<bool(const ProcessGrid&)>& belongs) {
  double sum = 0;
  for (grid.rank = 0; grid.rank < grid.world_size(); ++grid.rank) {
    if (belongs(grid)) sum += static_cast<double>(grid.rank + 1);
  }
  return sum;
}

TEST_CASE("every rank finds those that differ from it on one axis only") {
  Ranks ranks;
  const auto all = make_communicator(world(), &ranks.node_memory);
  for (const ProcessGrid& shape : kGrids) {
    const ProcessGrid me = grid_at(shape, all->rank());
    INFO(me.pipeline_size << " x " << me.data_size << " x " << me.tensor_size);
    GridGroups groups(*all, me);
    const auto require_sum = [&](Communicator& group, double expected) {
      double x = static_cast<double>(me.rank + 1);
      group.all_reduce(ranks.stream, {&x, DType::fp64, DeviceType::cpu, {1}}, {})
          .wait(ranks.stream);
      REQUIRE(x == expected);
    };
    require_sum(groups[Axis::data], sum_of(me, [&](const ProcessGrid& o) {
                  return o.group_rank(Axis::pipeline) == me.group_rank(Axis::pipeline) &&
                         o.group_rank(Axis::tensor) == me.group_rank(Axis::tensor);
                }));
    require_sum(groups[Axis::tensor], sum_of(me, [&](const ProcessGrid& o) {
                  return o.group_rank(Axis::pipeline) == me.group_rank(Axis::pipeline) &&
                         o.group_rank(Axis::data) == me.group_rank(Axis::data);
                }));
    const auto in_column = [&](const ProcessGrid& o) {
      return o.group_rank(Axis::data) == me.group_rank(Axis::data) &&
             o.group_rank(Axis::tensor) == me.group_rank(Axis::tensor);
    };
    require_sum(groups[Axis::pipeline], sum_of(me, in_column));
    require_sum(groups.pipeline_gradients(), sum_of(me, in_column));
    const auto at_an_end = [&](const ProcessGrid& o) {
      return o.group_rank(Axis::pipeline) == 0 ||
             o.group_rank(Axis::pipeline) + 1 == o.pipeline_size;
    };
    require_sum(groups[Axis::embedding], sum_of(me, [&](const ProcessGrid& o) {
                  return o.rank == me.rank || (at_an_end(me) && at_an_end(o) && in_column(o));
                }));
    CHECK(groups[Axis::pipeline].rank() == me.group_rank(Axis::pipeline));
    CHECK(groups.pipeline_gradients().rank() == me.group_rank(Axis::pipeline));
    CHECK(groups[Axis::tensor].rank() == me.group_rank(Axis::tensor));
    CHECK(groups[Axis::data].rank() == me.group_rank(Axis::data));
  }
}

TEST_CASE("a grid of other ranks is refused") {
  const auto all = make_communicator(world(), nullptr);
  CHECK_THROWS_WITH(GridGroups(*all, grid_at({2, 2, 1, 1}, all->rank())),
                    ContainsSubstring("the grid is not that of these ranks"));
  CHECK_THROWS_WITH(GridGroups(*all, grid_at({2, 2, 1, 2}, 7 - all->rank())),
                    ContainsSubstring("the grid is not that of these ranks"));
}

TEST_CASE("what the axes communicate counts in the world's ledger and goes to its observer") {
  Ranks ranks;
  const auto all = make_communicator(world(), &ranks.node_memory);
  std::vector<TrafficKey> seen, expected_seen;
  const auto observe = [&] {
    all->set_observer([&](const TrafficKey& key, auto, auto) { seen.push_back(key); });
  };
  const TensorView x = ranks.take<float>(Place::registered, 32);
  fill<float>(x, [](size_t) { return 0; });
  TrafficEntries expected;
  const auto call = [&](Communicator& group, Axis axis, size_t n) {
    const CallOptions options = {.purpose = Purpose::activation, .background = n > 8};
    group.all_reduce(ranks.stream, x.rows(0, n), options).wait(ranks.stream);
    if (group.size() == 1) return;  // an axis of one rank counts nothing
    const TrafficKey key = {Purpose::activation, Collective::all_reduce, axis};
    expected_seen.push_back(key);
    Traffic& traffic = expected[key];
    ++traffic.calls;
    traffic.payload_bytes += n * sizeof(float);
  };
  {
    observe();  // before the split, and again after it
    const ProcessGrid grid = grid_at({4, 2, 1, 1}, all->rank());
    GridGroups groups(*all, grid);
    const auto apart = all->split(all->rank() % 2);
    for (size_t n : {8, 32}) {
      call(*all, Axis::world, n);
      call(groups[Axis::data], Axis::data, n);
      call(groups[Axis::tensor], Axis::tensor, n);
      call(groups[Axis::pipeline], Axis::pipeline, n);
      call(groups.pipeline_gradients(), Axis::pipeline, n);
      call(groups[Axis::embedding], Axis::embedding, n);
      apart->all_reduce(ranks.stream, x, {}).wait(ranks.stream);
      observe();
    }
    groups.pipeline_gradients().barrier();
    expected[{Purpose::control, Collective::barrier, Axis::pipeline}] = {1, 0};
    // In its own group each axis has moved what the formula says.
    for (const auto& [key, traffic] : all->group_entries()) {
      INFO(name_of(key));
      CHECK(traffic == expected.at(key));
      CHECK(traffic.moved.bytes ==
            group_bytes(key.collective, grid.size(key.axis), traffic.payload_bytes));
    }
    CHECK(apart->ledger().entries().size() == 1);
    CHECK(&groups[Axis::data].ledger() == &all->ledger());
    CHECK_THROWS_WITH(groups[Axis::data].split_axis(Axis::tensor, 0),
                      ContainsSubstring("split_axis"));
  }
  CHECK(all->ledger().entries() == expected);  // also when the groups are gone
  CHECK(seen == expected_seen);
  all->barrier();
  Ranks::guard_everything(x);
}

TEST_CASE("evaluation counts as control traffic, on every axis") {
  const std::unique_ptr<Communicator> all = make_communicator(world(), nullptr);
  GridGroups groups(*all, grid_at({1, 4, 1, 2}, all->rank()));
  Stream stream(DeviceType::cpu);
  double number = 1;
  const TensorView view(&number, DType::fp64, DeviceType::cpu, {1});
  const CallOptions call = {.purpose = Purpose::activation};
  all->count_as_control(true);
  groups[Axis::tensor].all_reduce(stream, view, call).wait(stream);
  all->count_as_control(false);
  groups[Axis::tensor].all_reduce(stream, view, call).wait(stream);
  const TrafficEntries entries = all->ledger().entries();
  CHECK(entries.at({Purpose::control, Collective::all_reduce, Axis::tensor}).calls == 1);
  CHECK(entries.at({Purpose::activation, Collective::all_reduce, Axis::tensor}).calls == 1);
}

// The tied embedding is summed between two stages and then between replicas.
TEST_CASE("a registered buffer is reduced in place on every axis") {
  Ranks ranks;
  const auto all = make_communicator(world(), &ranks.node_memory);
  const ProcessGrid me = grid_at({2, 2, 1, 2}, all->rank());
  GridGroups groups(*all, me);
  for (bool background : {false, true}) {
    const TensorView x = ranks.take<double>(Place::registered, 1000);
    fill<double>(x, [&](size_t) { return all->rank() + 1; });
    const std::pair<Axis, Communicator*> axes[] = {{Axis::embedding, &groups[Axis::embedding]},
                                                   {Axis::data, &groups[Axis::data]},
                                                   {Axis::tensor, &groups[Axis::tensor]}};
    for (const auto& [axis, group] : axes) {
      const TrafficKey key = {Purpose::gradient, Collective::all_reduce, axis};
      const size_t before = all->ledger().entries()[key].moved.bytes;
      group->all_reduce(ranks.stream, x, {.purpose = Purpose::gradient, .background = background})
          .wait(ranks.stream);
      // In place slices are whole cache lines, 16 elements of 4 bytes; messages would halve the
      // 1000.
      const size_t slice = group->rank() == 0 ? 512 : 488;
      CHECK(all->ledger().entries()[key].moved.bytes - before == 2 * slice * sizeof(double));
    }
    require_elements<double>(x, [](size_t) { return 36; });
    ranks.release(*all, {x});
  }
}

// All axes at once, half of the ranks beginning with one, half with another.
TEST_CASE("sums by messages on several axes at once go through areas apart") {
  Ranks ranks;
  const auto all = make_communicator(world(), nullptr);
  const ProcessGrid me = grid_at({2, 2, 1, 2}, all->rank());
  const size_t elements = GridGroups::staging_elements(me), each = elements / 3;
  const Tensor area(ranks.memory, Category::communication, DType::fp32, {elements});
  std::vector<Tensor> data;
  for (size_t i = 0; i < 3; ++i) {
    data.emplace_back(ranks.memory, Category::gradients, DType::fp32, Shape{100'000});
  }
  all->use_staging(area);
  GridGroups groups(*all, me);
  CHECK(all->staging_area().empty());
  Communicator* const axes[] = {&groups[Axis::data], &groups[Axis::tensor],
                                &groups[Axis::embedding]};
  const size_t stride[] = {2, 1, 4};
  const auto expected = [&](size_t axis) {
    const size_t low = me.rank / stride[axis] % 2 == 0 ? me.rank : me.rank - stride[axis];
    return [=](size_t i) { return value(low, i) + value(low + stride[axis], i); };
  };
  for (size_t round = 0; round < 4; ++round) {
    Ranks::guard_everything(area);
    std::vector<Work> works(3);
    for (size_t i = 0; i < 3; ++i)
      fill<float>(data[i], [&](size_t k) { return value(me.rank, k); });
    for (size_t i = 0; i < 3; ++i) {
      const size_t axis = (i + round * me.rank) % 3;
      works[axis] = axes[axis]->all_reduce(ranks.stream, data[axis], {.background = true});
    }
    for (Work& work : works) work.wait(ranks.stream);
    for (size_t axis = 0; axis < 3; ++axis) {
      INFO("axis " << axis);
      require_elements<float>(data[axis], expected(axis));
      // It has used the beginning of its own part of the area.
      CHECK_FALSE(Ranks::is_guard(area.view().rows(axis * each, 100'000)));
      CHECK(Ranks::is_guard(area.view().rows(axis * each + 100'000, each - 100'000)));
    }
  }
}

TEST_CASE("areas for sums: one for each axis of several ranks that sums") {
  const size_t segment = kSegmentElements;
  CHECK(GridGroups::staging_elements({1, 1, 1, 1}) == 0);
  CHECK(GridGroups::staging_elements({1, 8, 1, 1}) == segment);
  CHECK(GridGroups::staging_elements({1, 1, 1, 3}) == (segment + 2) / 3 * 3);
  CHECK(GridGroups::staging_elements({4, 1, 1, 1}) == segment);  // the embedding alone
  CHECK(GridGroups::staging_elements({2, 2, 1, 2}) == 3 * segment);
}

TEST_CASE("who gives up the world gives up its axes") {
  Ranks ranks;
  const auto all = make_communicator(world(), &ranks.node_memory);
  const ProcessGrid me = grid_at({1, 4, 1, 2}, all->rank());
  GridGroups groups(*all, me);
  Work work;
  if (me.group_rank(Axis::tensor) == 0) {  // the other never comes
    work = groups[Axis::tensor].all_reduce(ranks.stream, ranks.take<float>(Place::registered, 10),
                                           {.background = true});
  }
  all->give_up();
  if (me.group_rank(Axis::tensor) == 0)
    CHECK_THROWS_WITH(work.wait(ranks.stream), ContainsSubstring("given up"));
}

void test_on_device(Communicator& all, Ranks& ranks) {
  const ProcessGrid me = grid_at({2, 2, 1, 2}, all.rank());
  std::vector<TrafficKey> seen;
  {
    GridGroups groups(all, me);
    all.set_observer([&](const TrafficKey& key, auto, auto) { seen.push_back(key); });
    const TensorView x = ranks.take<float>(Place::device, 1000);
    fill<float>(x, [&](size_t) { return all.rank() + 1; });
    for (Communicator* group :
         {&groups[Axis::embedding], &groups[Axis::data], &groups[Axis::tensor]}) {
      group->all_reduce(ranks.stream, x, {.purpose = Purpose::gradient}).wait(ranks.stream);
    }
    ranks.stream.synchronize();
    require_elements<float>(x, [](size_t) { return 36; });
    ranks.release(all, {x});
  }
  CHECK(seen.size() == 3);
  for (Axis axis : {Axis::embedding, Axis::data, Axis::tensor}) {
    const TrafficKey key = {Purpose::gradient, Collective::all_reduce, axis};
    const Traffic traffic = all.ledger().entries().at(key);
    CHECK(traffic == Traffic{1, 4000});
    CHECK(traffic.busy_seconds > 0);
    CHECK(std::count(seen.begin(), seen.end(), key) == 1);
  }
  // Groups of one rank are on the device too.
  GridGroups alone(all, grid_at({8, 1, 1, 1}, all.rank()));
  CHECK(alone[Axis::tensor].device() == all.device());
}

TEST_CASE("the same on a device, by NCCL and staged") {
  if (const auto device = device_for_nccl()) {
    INFO("NCCL");
    Ranks ranks(*device);
    NcclMemory memory;
    const auto all = nccl_world(ranks, &memory);
    test_on_device(*all, ranks);
  }
  if (const auto device = device_for_tests()) {
    INFO("staged");
    Ranks ranks(*device);
    const auto all = staged_world(ranks);
    test_on_device(*all, ranks);
  }
}

TEST_CASE("the axes of ranks without connection have none either") {
  const ProcessGrid me = grid_at({3, 2, 1, 2}, 5);
  auto* const unconnected = new Unconnected(me);
  Communicator nobody{std::unique_ptr<Transport>(unconnected)};
  GridGroups groups(nobody, me);
  const auto require_group = [](Communicator& group, size_t rank, size_t size) {
    CHECK(group.rank() == rank);
    REQUIRE(group.size() == size);
    Stream stream(DeviceType::cpu);
    float x = 3;
    group.all_reduce(stream, {&x, DType::fp32, DeviceType::cpu, {1}}, {}).wait(stream);
    CHECK(x == 3);
  };
  require_group(groups[Axis::data], 0, 2);
  require_group(groups[Axis::tensor], 1, 2);
  require_group(groups[Axis::pipeline], 1, 3);
  require_group(groups.pipeline_gradients(), 1, 3);
  require_group(groups[Axis::embedding], 0, 1);
  CHECK(unconnected->num_groups() == 4);  // data, tensor and the pipeline's two
  nobody.split_axis(Axis::stage, 0);
  CHECK(unconnected->num_groups() == 5);
}

}  // namespace
}  // namespace ladder::testing
