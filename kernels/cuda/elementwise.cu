#include "kernels/elementwise.h"
#include "kernels/residual.h"

#include "kernels/cuda/map.h"
#include "kernels/runtime/random.h"

namespace ladder::cuda {
namespace {

template <class T>
struct Constant {
  T value;
  __device__ T operator()() const { return value; }
};

template <class T>
struct Scaled {
  T factor;
  __device__ T operator()(T x) const { return factor * x; }
};

template <class T>
struct SumScaled {
  T factor;
  __device__ T operator()(T x, T y) const { return factor * x + y; }
};

template <class To>
struct Cast {  // converts to To directly: fp64 by way of fp32 would be rounded twice
  template <class From>
  __device__ To operator()(From x) const {
    return static_cast<To>(x);
  }
};

struct AddUpdate {
  template <class T>
  __device__ T operator()(T bias, T residual, T update) const {
    return residual + (update + bias);
  }
};

// An element takes ten rounds of integer arithmetic, so memory is not the limit and packs are of no
// use.
template <class T, class A = Accumulate<T>>
__global__ void fill_normal_kernel(T* out, size_t n, uint64_t key, uint64_t first, A factor) {
  const size_t i = thread_index();
  if (i < n) {
    out[i] = static_cast<T>(factor * static_cast<A>(random_normal_integer(key, first + i)));
  }
}

}  // namespace

void fill(Stream& stream, TensorView out, double value) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(stream, Constant<T>{static_cast<T>(value)}, out.num_elements(), out.as<T>());
  });
}

void add(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(stream, Sum(), out.num_elements(), out.as<T>(), a.as<T>(), b.as<T>());
  });
}

void scale(Stream& stream, TensorView out, ConstTensorView in, double factor) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    map(stream, Scaled<A>{static_cast<A>(factor)}, out.num_elements(), out.as<T>(), in.as<T>());
  });
}

void add_scaled(Stream& stream, TensorView out, ConstTensorView a, double factor,
                ConstTensorView b) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    map(stream, SumScaled<A>{static_cast<A>(factor)}, out.num_elements(), out.as<T>(), a.as<T>(),
        b.as<T>());
  });
}

void cast(Stream& stream, TensorView out, ConstTensorView in) {
  dispatch_float(out.dtype(), [&](auto out_zero) {
    dispatch_float(in.dtype(), [&](auto in_zero) {
      using To = decltype(out_zero);
      map(stream, Cast<To>(), out.num_elements(), out.as<To>(), in.as<decltype(in_zero)>());
    });
  });
}

void fill_normal(Stream& stream, TensorView out, uint64_t key, uint64_t first, double deviation) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const size_t n = out.num_elements();
    launch<fill_normal_kernel<T>>(stream.native(), threads_for(n), out.as<T>(), n, key, first,
                                  static_cast<Accumulate<T>>(deviation / kNormalDeviation));
  });
}

void add_residual(Stream& stream, TensorView out, ConstTensorView residual, ConstTensorView update,
                  ConstTensorView bias) {
  if (bias.empty()) return cuda::add(stream, out, residual, update);
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map_rows(stream, AddUpdate(), out.num_elements(), out.shape()[1], out.as<T>(), bias.as<T>(),
             residual.as<T>(), update.as<T>());
  });
}

}  // namespace ladder::cuda
