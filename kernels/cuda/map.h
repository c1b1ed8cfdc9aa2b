// Computes every element of an output as a function of the inputs' elements. Most kernels without
// sums are of this kind. Their time is that of memory, so a thread moves 16 bytes at once if the
// addresses allow it. f gets bf16 and fp16 as fp32, and its result is rounded once.
#pragma once

#include "kernels/cuda/pack.h"
#include "kernels/runtime/stream.h"

namespace ladder::cuda {

// Calls f for each element of the packs.
template <unsigned N, class Function, class... In>
__device__ auto map_pack(const Function& f, const Pack<In, N>&... in) {
  Pack<decltype(f(in.element[0]...)), N> out;
  for (unsigned k = 0; k < N; ++k) out.element[k] = f(in.element[k]...);
  return out;
}

template <unsigned N, class Function, class Out, class... In>
__global__ void map_kernel(Function f, size_t n, Out* out, const In*... in) {
  const size_t first = thread_index() * N;
  if (first + N <= n) {
    store(out + first, map_pack<N>(f, load<N>(in + first)...));
  } else {
    for (size_t i = first; i < n; ++i) store(out + i, map_pack<1>(f, load<1>(in + i)...));
  }
}

// out[i] = f(in[i]...) for all i < n. out may be one of the inputs.
template <class Function, class Out, class... In>
void map(Stream& stream, Function f, size_t n, Out* out, const In*... in) {
  constexpr unsigned kN = kPack<Out, In...>;
  if (packs_are_aligned<kN>(out, in...)) {
    launch<map_kernel<kN, Function, Out, In...>>(stream.native(), threads_for((n + kN - 1) / kN), f,
                                                 n, out, in...);
  } else {
    launch<map_kernel<1, Function, Out, In...>>(stream.native(), threads_for(n), f, n, out, in...);
  }
}

template <unsigned N, class Function, class T, class... In>
__global__ void map_rows_kernel(Function f, size_t n, size_t row_size, T* out, const T* row,
                                const In*... in) {
  const size_t first = thread_index() * N;
  if (first >= n) return;
  store(out + first, map_pack<N>(f, load<N>(row + first % row_size), load<N>(in + first)...));
}

// out[i] = f(row[i % row_size], in[i]...) for all i < n: all rows share the input `row`. out may be
// one of the `in`. REQUIRES: row_size divides n.
template <class Function, class T, class... In>
void map_rows(Stream& stream, Function f, size_t n, size_t row_size, T* out, const T* row,
              const In*... in) {
  dispatch_pack<T>(in_packs(row_size, out, row, in...), [&](auto pack) {
    launch<map_rows_kernel<pack, Function, T, In...>>(stream.native(), threads_for(n / pack), f, n,
                                                      row_size, out, row, in...);
  });
}

}  // namespace ladder::cuda
