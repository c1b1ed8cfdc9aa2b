#include "kernels/cpu/gemm.h"

#include <dnnl_debug.h>
#include <dnnl.hpp>
#include <map>

#include "kernels/runtime/check.h"

namespace ladder::cpu {
namespace {

using Dims = dnnl::memory::dims;

dnnl_dim_t dim(size_t extent) { return static_cast<dnnl_dim_t>(extent); }

// The properties of a product of bf16 matrices for which oneDNN compiles code.
struct ProductKind {
  bool a_transposed, b_transposed, accumulate, fp32_out;
  auto operator<=>(const ProductKind&) const = default;
};

// One kind of product of bf16 matrices, compiled once for all shapes. If oneDNN knows the shape it
// takes another implementation. That one is a few percent faster for at most 256 rows, but slower
// for more, and slower by a third when it accumulates a weight's gradient.
class Bf16Product {
 public:
  explicit Bf16Product(const ProductKind& kind)
      : kind_(kind),
#if DNNL_VERSION_MAJOR >= 3
        product_({engine_, a(kAny, kAny, kAny), b(kAny, kAny, kAny), out(kAny, kAny, kAny),
                  attributes(kind.accumulate)}) {
  }
#else
        product_({{a(kAny, kAny, kAny), b(kAny, kAny, kAny), out(kAny, kAny, kAny)},
                  attributes(kind.accumulate),
                  engine_}) {
  }
#endif

  // out (m, n) = a (m, k) b (k, n), or += if the kind accumulates. Returns when it has been
  // computed.
  template <class Out>
  void run(dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k, const Matrix<bfloat16>& left,
           const Matrix<bfloat16>& right, Out* to, dnnl_dim_t out_stride) {
    const auto pointer = [](const bfloat16* data) { return const_cast<bfloat16*>(data); };
    dnnl::stream stream(engine_);
    product_.execute(
        stream, {{DNNL_ARG_SRC, {a(m, k, dim(left.stride)), engine_, pointer(left.data)}},
                 {DNNL_ARG_WEIGHTS, {b(k, n, dim(right.stride)), engine_, pointer(right.data)}},
                 {DNNL_ARG_DST, {out(m, n, out_stride), engine_, to}}});
    stream.wait();
  }

 private:
  using Desc = dnnl::memory::desc;
  using Type = dnnl::memory::data_type;
  static constexpr dnnl_dim_t kAny = DNNL_RUNTIME_DIM_VAL;

  static dnnl::primitive_attr attributes(bool accumulate) {
    dnnl::primitive_attr attributes;
    if (!accumulate) return attributes;
    dnnl::post_ops sum;
    sum.append_sum(1);
    attributes.set_post_ops(sum);
    return attributes;
  }
  static Desc matrix(dnnl_dim_t rows, dnnl_dim_t columns, Type type, dnnl_dim_t stride,
                     bool transposed) {
    return {{rows, columns}, type, transposed ? Dims{1, stride} : Dims{stride, 1}};
  }
  Desc a(dnnl_dim_t m, dnnl_dim_t k, dnnl_dim_t stride) const {
    return matrix(m, k, Type::bf16, stride, kind_.a_transposed);
  }
  Desc b(dnnl_dim_t k, dnnl_dim_t n, dnnl_dim_t stride) const {
    return matrix(k, n, Type::bf16, stride, kind_.b_transposed);
  }
  Desc out(dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t stride) const {
    return matrix(m, n, kind_.fp32_out ? Type::f32 : Type::bf16, stride, false);
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  ProductKind kind_;
  dnnl::matmul product_;
};

// Throws the Error for a product of (m, k) and (k, n) in which oneDNN failed.
[[noreturn]] void fail_product(const char* dtype, size_t m, size_t n, size_t k,
                               dnnl_status_t status) {
  const char* const advice =
      status == dnnl_out_of_memory
          ? ": the machine has no memory left for what it works in; run fewer ranks, threads or "
            "other programs beside this one"
          : "";
  throw Error(concat("oneDNN's product of ", dtype, " matrices (", m, ", ", k, ") and (", k, ", ",
                     n, ") failed with status ", dnnl_status2str(status), advice));
}

bool cpu_has_bf16() {
  static const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  constexpr auto kBf16 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (isa & kBf16) == kBf16;
}

template <class Out>
void gemm_bf16(size_t m, size_t n, size_t k, Matrix<bfloat16> a, Matrix<bfloat16> b,
               bool accumulate, Out* out, size_t out_stride) {
  if (!cpu_has_bf16()) return blocked_gemm(m, n, k, a, b, accumulate, out, out_stride);
  // Each thread has its own products, because two threads may not share a product's workspace.
  thread_local std::map<ProductKind, Bf16Product> products;
  const ProductKind kind{a.transposed, b.transposed, accumulate, std::is_same_v<Out, float>};
  try {
    Bf16Product& product = products.try_emplace(kind, kind).first->second;
    product.run(dim(m), dim(n), dim(k), a, b, out, dim(out_stride));
  } catch (const dnnl::error& error) {
    fail_product("bf16", m, n, k, error.status);
  }
}

}  // namespace

void gemm(size_t m, size_t n, size_t k, Matrix<float> a, Matrix<float> b, bool accumulate,
          float* out, size_t out_stride) {
  const dnnl_status_t status = dnnl_sgemm(
      a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(m), dim(n), dim(k), 1.0f, a.data,
      dim(a.stride), b.data, dim(b.stride), accumulate ? 1.0f : 0.0f, out, dim(out_stride));
  if (status != dnnl_success) fail_product("fp32", m, n, k, status);
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
