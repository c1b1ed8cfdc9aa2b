#include "kernels/rmsnorm.h"

#include "kernels/cuda/column_parts.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/layernorm_row.h"

namespace ladder::cuda {
namespace {

// What LaneRow is for rows in registers, for wider rows or such as do not consist of packs: a lane
// reads its packs whenever they are asked for, after the first time from the cache.
template <class T, unsigned N>
struct RowInMemory {
  static constexpr unsigned kElements = N;
  const T* row;

  template <class Body>
  static __device__ void for_each(size_t n, Body body) {
    for (size_t i = lane_index() * N; i < n; i += kWarpSize * N) body(0u, i);
  }
  __device__ RowInMemory(const T* row_, size_t) : row(row_) {}
  __device__ Pack<Accumulate<T>, N> at(unsigned, size_t i) const { return load<N>(row + i); }
};

// Calls function(shape, Row's type) with what a warp has of a row: a LaneRow if it fits registers
// (and kMayFit), else a RowInMemory.
template <class T, bool kMayFit, class Function>
void dispatch_rows(bool packs, size_t rows, size_t n, Function function) {
  const auto in_registers = [&](auto count) {
    if constexpr (kMayFit) {
      using Row = LaneRow<Accumulate<T>, kPack<T>, decltype(count)::value>;
      function(warps_of(rows, kBlocksOfGrid), std::type_identity<Row>());
    }
  };
  const auto from_memory = [&] {
    dispatch_pack<T>(packs, [&](auto pack) {
      function(warps_of(rows), std::type_identity<RowInMemory<T, decltype(pack)::value>>());
    });
  };
  dispatch_row<T>(packs, n, in_registers, from_memory);
}

template <class Row, class T, class A = Accumulate<T>>
__global__ void rmsnorm_forward_kernel(T* out, A* rstds, const T* in, const T* weight, A epsilon,
                                       size_t rows, size_t n) {
  const Row w(weight, n);
  const A inverse = A{1} / static_cast<A>(n);
  const size_t step = size_t{gridDim.x} * kWarpsOfBlock;
  for (size_t row = size_t{blockIdx.x} * kWarpsOfBlock + warp_index(); row < rows; row += step) {
    const Row x(in + row * n, n);
    A squares = 0;
    Row::for_each(n, [&](unsigned p, size_t i) {
      const auto v = x.at(p, i);
      for (unsigned k = 0; k < Row::kElements; ++k) squares += v.element[k] * v.element[k];
    });
    const A rstd = A{1} / std::sqrt(inverse * warp_sum(squares) + epsilon);
    Row::for_each(n, [&](unsigned p, size_t i) {
      auto v = x.at(p, i);
      const auto factor = w.at(p, i);
      for (unsigned k = 0; k < Row::kElements; ++k) {
        v.element[k] = v.element[k] * rstd * factor.element[k];
      }
      store(out + row * n + i, v);
    });
    if (lane_index() == 0) rstds[row] = rstd;
  }
}

// Adds the gradient to din.
template <class Row, class T, class A = Accumulate<T>>
__global__ void rmsnorm_rows_kernel(T* din, const T* dout, const T* in, const T* weight,
                                    const A* rstds, size_t rows, size_t n) {
  constexpr unsigned N = Row::kElements;
  const Row w(weight, n);
  const A inverse = A{1} / static_cast<A>(n);
  const size_t step = size_t{gridDim.x} * kWarpsOfBlock;
  for (size_t row = size_t{blockIdx.x} * kWarpsOfBlock + warp_index(); row < rows; row += step) {
    const A rstd = rstds[row];
    const Row x(in + row * n, n), d(dout + row * n, n);
    A sum_gn = 0;
    Row::for_each(n, [&](unsigned p, size_t i) {
      const auto v = x.at(p, i), g = d.at(p, i), factor = w.at(p, i);
      for (unsigned k = 0; k < N; ++k) {
        sum_gn += g.element[k] * factor.element[k] * (v.element[k] * rstd);
      }
    });
    const A mean_gn = inverse * warp_sum(sum_gn);
    Row::for_each(n, [&](unsigned p, size_t i) {
      const auto v = x.at(p, i), g = d.at(p, i), factor = w.at(p, i);
      auto sum = load<N>(din + row * n + i);
      for (unsigned k = 0; k < N; ++k) {
        sum.element[k] += rstd * (g.element[k] * factor.element[k] - v.element[k] * rstd * mean_gn);
      }
      store(din + row * n + i, sum);
    });
  }
}

// Adds the sums over all rows to dweight.
template <unsigned N, class T, class A = Accumulate<T>>
__global__ void __launch_bounds__(kColumnThreads, 1)
    rmsnorm_columns_kernel(A* dweight, const T* dout, const T* in, const A* rstds, size_t rows,
                           size_t n) {
  struct Fetched {
    Pack<A, N> d, x;
    A rstd;
  };
  const auto fetch = [&](size_t row, size_t column) {
    return Fetched{load<N>(dout + row * n + column), load<N>(in + row * n + column), rstds[row]};
  };
  add_column_sums<N>({dweight}, rows, n, fetch, [](auto& sums, const Fetched& f) {
    for (unsigned k = 0; k < N; ++k) sums[0][k] += f.d.element[k] * (f.x.element[k] * f.rstd);
  });
}

// Both at once in 16 bits, as layernorm_backward.cu does it: dout and `in` are read once.
template <unsigned kPacks, class T>
__global__ void __launch_bounds__(kWarpsOfBlock* kWarpSize, kPacks <= 3 ? 2 : 1)
    rmsnorm_rows_and_columns_kernel(T* din, float* parts, const T* dout, const T* in,
                                    const T* weight, const float* rstds, size_t rows, size_t n) {
  constexpr unsigned N = kPack<T>;
  using Lane = LaneRow<T, N, kPacks>;
  T* const w = dynamic_shared<T>();
  for (size_t i = threadIdx.x * N; i < n; i += blockDim.x * N) store(w + i, load<N>(weight + i));
  __syncthreads();
  const float inverse = 1 / static_cast<float>(n);
  float of_weight[1][kPacks][N] = {};
  const size_t step = size_t{gridDim.x} * kWarpsOfBlock;
  for (size_t row = size_t{blockIdx.x} * kWarpsOfBlock + warp_index(); row < rows; row += step) {
    const float rstd = rstds[row];
    const Lane x(in + row * n, n), d(dout + row * n, n);
    float sum_gn = 0;
    Lane::for_each(n, [&](unsigned p, size_t i) {
      const auto factor = load<N>(w + i);
      for (unsigned k = 0; k < N; ++k) {
        const float g = float{d.pack[p].element[k]};
        const float normalized = float{x.pack[p].element[k]} * rstd;
        of_weight[0][p][k] += g * normalized;
        sum_gn += g * factor.element[k] * normalized;
      }
    });
    const float mean_gn = inverse * warp_sum(sum_gn);
    Lane::for_each(n, [&](unsigned p, size_t i) {
      const auto factor = load<N>(w + i);
      auto sum = load<N>(din + row * n + i);
      for (unsigned k = 0; k < N; ++k) {
        const float g = float{d.pack[p].element[k]} * factor.element[k];
        sum.element[k] += rstd * (g - float{x.pack[p].element[k]} * rstd * mean_gn);
      }
      store(din + row * n + i, sum);
    });
  }
  write_part<Lane>(parts, of_weight, n);
}

template <class T>
void backward_in_parts(Stream& stream, T* din, float* dweight, const T* dout, const T* in,
                       const T* weight, const float* rstd, size_t rows, size_t n) {
  LaunchShape shape = warps_of(rows, kMostParts);
  shape.shared_bytes = n * sizeof(float);
  float* const parts = memory_for_parts(stream, shape.grid.x * n);
  dispatch_packs<T>(n, [&](auto packs) {
    launch<rmsnorm_rows_and_columns_kernel<decltype(packs)::value, T>>(
        stream.native(), shape, din, parts, dout, in, weight, rstd, rows, n);
  });
  add_parts(stream, ColumnSums<1>{{dweight}}, parts, shape.grid.x, n);
}

}  // namespace

void rmsnorm_forward(Stream& stream, TensorView out, TensorView rstd, ConstTensorView in,
                     ConstTensorView weight, double epsilon) {
  const size_t rows = in.shape()[0], n = in.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const o = out.as<T>();
    A* const s = rstd.as<A>();
    const T *const x = in.as<T>(), *const w = weight.as<T>();
    dispatch_rows<T, true>(in_packs(n, o, x, w), rows, n, [&](const LaunchShape& shape, auto row) {
      launch<rmsnorm_forward_kernel<typename decltype(row)::type, T>>(
          stream.native(), shape, o, s, x, w, static_cast<A>(epsilon), rows, n);
    });
  });
}

void rmsnorm_backward(Stream& stream, TensorView din, TensorView dweight, ConstTensorView dout,
                      ConstTensorView in, ConstTensorView weight, ConstTensorView rstd) {
  const size_t rows = in.shape()[0], n = in.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const dx = din.as<T>();
    const T *const d = dout.as<T>(), *const x = in.as<T>(), *const w = weight.as<T>();
    const A* const s = rstd.as<A>();
    A* const dw = dweight.empty() ? nullptr : dweight.as<A>();
    const bool packs = in_packs(n, dx, d, x, w);
    if constexpr (sizeof(T) == 2) {
      if (packs && fits_registers<T>(n)) {
        return backward_in_parts(stream, dx, dw, d, x, w, s, rows, n);
      }
    }
    constexpr bool kMayFit = sizeof(T) > 2;  // in 16 bits such rows are done
    dispatch_rows<T, kMayFit>(packs, rows, n, [&](const LaunchShape& shape, auto row) {
      launch<rmsnorm_rows_kernel<typename decltype(row)::type, T>>(stream.native(), shape, dx, d, x,
                                                                   w, s, rows, n);
    });
    if (dw == nullptr) return;
    dispatch_columns<T>(
        n,
        [&](auto count) {
          launch<rmsnorm_columns_kernel<decltype(count)::value, T>>(
              stream.native(), column_slices(n, count), dw, d, x, s, rows, n);
        },
        d, x);
  });
}

}  // namespace ladder::cuda
