// The order in which thread blocks of attention take tiles (TileOrder): every tile once, a group of
// heads after the other, and within a group tile 0 of all its heads first.
#include "kernels/cuda/attention_mma_tile.h"
#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;
using cuda::TileOrder;

__global__ void write_places(int32_t* places, TileOrder order) {
  const auto [head, tile] = order.of_block();
  places[2 * blockIdx.x] = static_cast<int32_t>(head);
  places[2 * blockIdx.x + 1] = static_cast<int32_t>(tile);
}

void require_order(size_t heads, size_t tiles, size_t heads_of_group) {
  INFO(heads << " heads of " << tiles << " tiles in groups of " << heads_of_group);
  const TileOrder order = TileOrder::of(heads, tiles, TileOrder::kGroupBytes / heads_of_group);
  const Array places(DType::int32, {heads * tiles, 2});
  cuda::launch<write_places>(stream().native(), {order.grid(), dim3(1)},
                             places.view().as<int32_t>(), order);
  stream().synchronize();
  Values expected;
  for (size_t first = 0; first < heads; first += heads_of_group) {
    for (size_t tile = 0; tile < tiles; ++tile) {
      for (size_t head = first; head < std::min(first + heads_of_group, heads); ++head) {
        expected.push_back(static_cast<double>(head));
        expected.push_back(static_cast<double>(tile));
      }
    }
  }
  require_same_bits(places.values(), expected);
}

TEST_CASE("thread blocks take every tile once, a group of heads after the other") {
  const OnDevice on = on_every_device();
  if (place().device == DeviceType::cpu) return;
  require_order(1, 1, 1);
  require_order(12, 16, 12);
  require_order(12, 3, 4);
  require_order(7, 4, 3);  // the last group has one head
}

TEST_CASE("a head that is larger than a group, and heads that are fewer or none") {
  CHECK(TileOrder::of(5, 2, 2 * TileOrder::kGroupBytes).heads_of_group == 1);
  CHECK(TileOrder::of(5, 2, 64).heads_of_group == 5);
  CHECK(TileOrder::of(0, 2, 64).grid().x == 0);
  CHECK(TileOrder::of(5, 0, 0).grid().x == 0);
}

}  // namespace
}  // namespace ladder
