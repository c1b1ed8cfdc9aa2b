// Rotary positions on the CPU; a thread has whole rows. Read kernels/cpu/plain_rotary.h first.
#include "kernels/rotary.h"

#include "kernels/cpu/map.h"

namespace ladder::cpu {

void rotary(Stream&, TensorView x, HeadRange heads, ConstTensorView table,
            ConstTensorView positions, Turn turn) {
  const size_t tokens = x.shape()[1], rows = x.shape()[0] * tokens, columns = x.shape()[2];
  const size_t head_size = table.shape()[1], half = head_size / 2;
  const int32_t* const position = positions.empty() ? nullptr : positions.as<int32_t>();
  const size_t period = positions.empty() ? tokens : positions.num_elements();
  dispatch_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const elements = x.as<T>();
    const A* const angles = table.as<A>();
    const TurnPoint<A> turn_point(turn);
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      const size_t p = position == nullptr ? r % period : static_cast<size_t>(position[r % period]);
      const A *const cosines = angles + p * head_size, *const sines = cosines + half;
      for (size_t h = heads.first; h < heads.first + heads.count; ++h) {
        T *const x1 = elements + r * columns + h * head_size, *const x2 = x1 + half;
        map_pairs_in_thread(turn_point, half, x1, x2, x1, x2, cosines, sines);
      }
    }
  });
}

}  // namespace ladder::cpu
