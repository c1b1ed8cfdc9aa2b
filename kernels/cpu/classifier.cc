// Softmax cross-entropy on the CPU: a thread has whole rows. Read kernels/cpu/plain_classifier.h
// first.
#include "kernels/classifier.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/lane_sum.h"
#include "kernels/cpu/map.h"
#include "kernels/cpu/math.h"
#include "kernels/vocabulary.h"

namespace ladder::cpu {

void softmax_maximum(Stream&, TensorView maximum, ConstTensorView logits) {
  const size_t rows = logits.shape()[0], n = logits.shape()[1], pitch = logits.pitch();
  dispatch_accumulation(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const m = maximum.as<T>();
    const T* const x = logits.as<T>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) m[r] = lane_max(n, x + r * pitch);
  });
}

void softmax_exponentials(Stream&, TensorView logits, TensorView sum, TensorView target_logit,
                          ConstTensorView targets, ConstTensorView maximum, size_t first) {
  const size_t rows = logits.shape()[0], n = logits.shape()[1], pitch = logits.pitch();
  dispatch_accumulation(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T *const x = logits.as<T>(), *const s = sum.as<T>(), *const t = target_logit.as<T>();
    const T* const m = maximum.as<T>();
    const int32_t* const target = targets.as<int32_t>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      T* const row = x + r * pitch;
      if (target[r] == kIgnored) {
        std::fill_n(row, n, T{0});
        t[r] = 0;
        s[r] = first == 0 ? 1 : 0;
        continue;
      }
      const size_t column = index_in_slice(target[r], first, n);
      t[r] = column < n ? row[column] - m[r] : T{0};
      const T shift = m[r];
#pragma omp simd
      for (size_t v = 0; v < n; ++v) row[v] = vector_exp(row[v] - shift);
      s[r] = lane_sum<T>(
          n, [](auto e) { return e; }, row);
    }
  });
}

void cross_entropy(Stream& stream, TensorView losses, TensorView dlogits,
                   ConstTensorView exponentials, ConstTensorView sum, ConstTensorView target_logit,
                   ConstTensorView targets, size_t first, double loss_scale) {
  const size_t rows = exponentials.shape()[0], n = exponentials.shape()[1];
  cpu::cross_entropy_loss(stream, losses, sum, target_logit);
  dispatch_float(dlogits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const A* const s = sum.as<A>();
    const int32_t* const target = targets.as<int32_t>();
    const A scale = static_cast<A>(loss_scale);
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      const A factor = scale / s[r];
      const A* const e = exponentials.as<A>() + r * exponentials.pitch();
      T* const d = dlogits.as<T>() + r * dlogits.pitch();
      const size_t column = index_in_slice(target[r], first, n);
      const A of_target = column < n ? e[column] * factor - scale : A{};
      map_in_thread([factor](auto x) { return x * factor; }, n, d, e);
      if (column < n) d[column] = static_cast<T>(of_target);
    }
  });
}

void cross_entropy_loss(Stream&, TensorView losses, ConstTensorView sum,
                        ConstTensorView target_logit) {
  const size_t rows = losses.num_elements();
  dispatch_accumulation(losses.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const l = losses.as<T>();
    const T *const s = sum.as<T>(), *const t = target_logit.as<T>();
    for (size_t r = 0; r < rows; ++r) l[r] = std::log(s[r]) - t[r];
  });
}

namespace {

// The loss and the gradient of one row of logits in 16 bits. Returns the loss. x may be d.
template <class T>
float rounded_row(T* d, const T* x, size_t n, size_t target, float scale) {
  const auto for_tiles = [&](auto body) {
    for (size_t first = 0; first < n; first += kTile) {
      const size_t count = std::min(kTile, n - first);
      body(first, count, Widened<T>(x + first, count));
    }
  };
  const float of_target = target < n ? float{x[target]} : 0;
  float maximum = std::numeric_limits<float>::lowest(), total = 0;
  for_tiles([&](size_t, size_t count, const float* tile) {
    maximum = std::max(maximum, lane_max(count, tile));
  });
  float e[kTile];
  const auto exponentials = [&](size_t count, const float* tile) {
#pragma omp simd
    for (size_t i = 0; i < count; ++i) e[i] = vector_exp(tile[i] - maximum);
  };
  for_tiles([&](size_t, size_t count, const float* tile) {
    exponentials(count, tile);
    total += lane_sum<float>(
        count, [](auto one) { return one; }, e);
  });
  const float factor = target < n ? scale / total : 0;  // kIgnored is beyond every vocabulary
  for_tiles([&](size_t first, size_t count, const float* tile) {
    exponentials(count, tile);
    for (size_t i = 0; i < count; ++i) e[i] *= factor;
    if (target - first < count) e[target - first] -= scale;
    convert(d + first, e, count);
  });
  return target < n ? std::log(total) - (of_target - maximum) : 0;
}

}  // namespace

void softmax_cross_entropy(Stream& stream, TensorView losses, TensorView dlogits, TensorView logits,
                           TensorView statistics, ConstTensorView targets, double loss_scale) {
  const size_t rows = logits.shape()[0], n = logits.shape()[1];
  if (logits.dtype() == losses.dtype()) {
    const TensorView maximum = statistics.rows(0, rows), sum = statistics.rows(rows, rows);
    const TensorView target_logit = statistics.rows(2 * rows, rows);
    cpu::softmax_maximum(stream, maximum, logits);
    cpu::softmax_exponentials(stream, logits, sum, target_logit, targets, maximum, 0);
    cpu::cross_entropy(stream, losses, dlogits, logits, sum, target_logit, targets, 0, loss_scale);
    return;
  }
  dispatch_float(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (is_low_precision<T>) {
      const int32_t* const target = targets.as<int32_t>();
#pragma omp parallel for schedule(static)
      for (size_t r = 0; r < rows; ++r) {
        losses.as<float>()[r] =
            rounded_row(dlogits.as<T>() + r * dlogits.pitch(), logits.as<T>() + r * logits.pitch(),
                        n, static_cast<size_t>(target[r]), static_cast<float>(loss_scale));
      }
    }
  });
}

}  // namespace ladder::cpu
