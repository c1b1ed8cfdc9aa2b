#include "kernels/rotary.h"

#include "kernels/cuda/pack.h"

namespace ladder::cuda {
namespace {

// Where the heads are, and their tokens' positions.
struct RotaryShape {
  size_t columns, first_column;  // of a row, and where its first turned head begins
  size_t num_heads, half;        // turned heads, and the elements of half a head
  const int32_t* positions;      // null: 0, 1, ...
  size_t period;                 // the rows after which positions begin again

  __device__ size_t position(size_t row) const {
    const size_t i = row % period;
    return positions == nullptr ? i : static_cast<size_t>(positions[i]);
  }
};

// A thread turns N points: it has a pack of each half of a head. n points are turned in all.
template <unsigned N, class T, class A = Accumulate<T>>
__global__ void rotary_kernel(T* x, const A* table, RotaryShape shape, TurnPoint<A> turn_point,
                              size_t n) {
  const size_t point = thread_index() * N;
  if (point >= n) return;
  const size_t half = shape.half, i = point % half, head = point / half % shape.num_heads;
  const size_t row = point / half / shape.num_heads;
  T* const at = x + row * shape.columns + shape.first_column + head * 2 * half + i;
  const A* const angles = table + shape.position(row) * 2 * half + i;
  auto first = load<N>(at), second = load<N>(at + half);
  const auto cosine = load<N>(angles), sine = load<N>(angles + half);
  for (unsigned k = 0; k < N; ++k) {
    const auto [x1, x2] =
        turn_point(first.element[k], second.element[k], cosine.element[k], sine.element[k]);
    first.element[k] = x1;
    second.element[k] = x2;
  }
  store(at, first);
  store(at + half, second);
}

}  // namespace

void rotary(Stream& stream, TensorView x, HeadRange heads, ConstTensorView table,
            ConstTensorView positions, Turn turn) {
  const size_t rows = x.shape()[0] * x.shape()[1], head_size = table.shape()[1];
  const RotaryShape shape = {x.shape()[2],
                             heads.first * head_size,
                             heads.count,
                             head_size / 2,
                             positions.empty() ? nullptr : positions.as<int32_t>(),
                             positions.empty() ? x.shape()[1] : positions.num_elements()};
  const size_t n = rows * heads.count * shape.half;
  dispatch_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    constexpr unsigned N = kPack<T, A>;
    T* const elements = x.as<T>();
    const A* const angles = table.as<A>();
    const bool packs = shape.half % N == 0 && shape.columns % N == 0 &&
                       packs_are_aligned<N>(elements) && packs_are_aligned<N>(angles);
    dispatch_pack<T, N>(packs, [&](auto pack) {
      launch<rotary_kernel<decltype(pack)::value, T>>(
          stream.native(), threads_for(n / pack), elements, angles, shape, TurnPoint<A>(turn), n);
    });
  });
}

}  // namespace ladder::cuda
