#include "kernels/cpu/gemm.h"

#include <omp.h>

#include <dnnl.hpp>
#include <map>

#include "kernels/runtime/check.h"

namespace ladder::cpu {
namespace {

using Dims = dnnl::memory::dims;

dnnl_dim_t dim(size_t extent) { return static_cast<dnnl_dim_t>(extent); }

// All that oneDNN compiles into a product of bf16 matrices.
struct ProductShape {
  size_t m, n, k, a_stride, b_stride, out_stride;
  bool a_transposed, b_transposed, accumulate, wide_out;
  int threads;  // that will work on it
  auto operator<=>(const ProductShape&) const = default;
};

// A product of bf16 matrices, compiled once.
class Bf16Product {
 public:
  explicit Bf16Product(const ProductShape& s) : engine_(dnnl::engine::kind::cpu, 0) {
    using Type = dnnl::memory::data_type;
    const auto strides = [](size_t stride, bool transposed) {
      return transposed ? Dims{1, dim(stride)} : Dims{dim(stride), 1};
    };
    a_ = {{dim(s.m), dim(s.k)}, Type::bf16, strides(s.a_stride, s.a_transposed)};
    b_ = {{dim(s.k), dim(s.n)}, Type::bf16, strides(s.b_stride, s.b_transposed)};
    out_ = {
        {dim(s.m), dim(s.n)}, s.wide_out ? Type::f32 : Type::bf16, strides(s.out_stride, false)};
    dnnl::primitive_attr attributes;
    if (s.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1);
      attributes.set_post_ops(sum);
    }
    product_ = dnnl::matmul({{a_, b_, out_}, attributes, engine_});
  }

  // Returns when it has been computed.
  void run(const void* a, const void* b, void* out) {
    dnnl::stream stream(engine_);
    product_.execute(stream, {{DNNL_ARG_SRC, {a_, engine_, const_cast<void*>(a)}},
                              {DNNL_ARG_WEIGHTS, {b_, engine_, const_cast<void*>(b)}},
                              {DNNL_ARG_DST, {out_, engine_, out}}});
    stream.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::memory::desc a_, b_, out_;
  dnnl::matmul product_;
};

bool cpu_has_bf16() {
  static const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  constexpr auto kBf16 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (isa & kBf16) == kBf16;
}

template <class Out>
void gemm_bf16(size_t m, size_t n, size_t k, Matrix<bfloat16> a, Matrix<bfloat16> b,
               bool accumulate, Out* out, size_t out_stride) {
  if (!cpu_has_bf16()) return blocked_gemm(m, n, k, a, b, accumulate, out, out_stride);
  // Compiling takes about as long as a small product, and a model has a few dozen shapes. Each
  // thread has its own, because what a product works in is not for two at once.
  thread_local std::map<ProductShape, Bf16Product> products;
  const ProductShape shape{m,
                           n,
                           k,
                           a.stride,
                           b.stride,
                           out_stride,
                           a.transposed,
                           b.transposed,
                           accumulate,
                           std::is_same_v<Out, float>,
                           omp_in_parallel() ? 1 : omp_get_max_threads()};
  try {
    products.try_emplace(shape, shape).first->second.run(a.data, b.data, out);
  } catch (const dnnl::error& error) {
    fail(concat("oneDNN's product of bf16 matrices: ", error.what()));
  }
}

}  // namespace

void gemm(size_t m, size_t n, size_t k, Matrix<float> a, Matrix<float> b, bool accumulate,
          float* out, size_t out_stride) {
  const dnnl_status_t status = dnnl_sgemm(
      a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(m), dim(n), dim(k), 1.0f, a.data,
      dim(a.stride), b.data, dim(b.stride), accumulate ? 1.0f : 0.0f, out, dim(out_stride));
  if (status != dnnl_success) fail(concat("dnnl_sgemm returned status ", status));
}

void gemm(size_t m, size_t n, size_t k, Matrix<double> a, Matrix<double> b, bool accumulate,
          double* out, size_t out_stride) {
  blocked_gemm(m, n, k, a, b, accumulate, out, out_stride);
}

void gemm(size_t m, size_t n, size_t k, Matrix<bfloat16> a, Matrix<bfloat16> b, bool accumulate,
          float* out, size_t out_stride) {
  gemm_bf16(m, n, k, a, b, accumulate, out, out_stride);
}

void gemm(size_t m, size_t n, size_t k, Matrix<bfloat16> a, Matrix<bfloat16> b, bool accumulate,
          bfloat16* out, size_t out_stride) {
  gemm_bf16(m, n, k, a, b, accumulate, out, out_stride);
}

void gemm(size_t m, size_t n, size_t k, Matrix<float16> a, Matrix<float16> b, bool accumulate,
          float* out, size_t out_stride) {
  blocked_gemm(m, n, k, a, b, accumulate, out, out_stride);
}

void gemm(size_t m, size_t n, size_t k, Matrix<float16> a, Matrix<float16> b, bool accumulate,
          float16* out, size_t out_stride) {
  blocked_gemm(m, n, k, a, b, accumulate, out, out_stride);
}

}  // namespace ladder::cpu
