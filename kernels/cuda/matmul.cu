#include "kernels/matmul.h"

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/cublas_handle.h"

namespace ladder::cuda {
namespace {

std::atomic<bool> tf32 = false;

// Returns the type in which cuBLAS computes. For bf16 and fp16 it uses the tensor cores by itself.
cublasComputeType_t compute_type(DType dtype) {
  if (dtype == DType::fp64) return CUBLAS_COMPUTE_64F;
  return dtype == DType::fp32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// Some indices of an extent of a product.
struct Range {
  size_t first, count;
};

// Returns where these rows and columns of op(matrix) begin.
template <class Void>
auto* element(const BasicView<Void>& matrix, Range rows, Range columns, bool transposed) {
  const size_t row = transposed ? columns.first : rows.first;
  const size_t column = transposed ? rows.first : columns.first;
  using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
  return static_cast<Byte*>(matrix.data()) +
         (row * matrix.pitch() + column) * size_of(matrix.dtype());
}

// One product of views. Ranges of it can be computed by themselves.
struct Product {
  cudaStream_t stream;
  cublasHandle_t handle;
  TensorView out;
  ConstTensorView a, b;
  bool transpose_a, transpose_b;

  // cuBLAS expects matrices column by column, so it sees our row-major ones transposed. We ask it
  // for out^T = op(b)^T op(a)^T: the factors change places and keep their operations.
  void compute(Range m, Range n, Range k, bool accumulate) const {
    if (m.count == 0 || n.count == 0 || k.count == 0) return;
    const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const auto size = [](size_t extent) { return static_cast<int64_t>(extent); };
    dispatch_accumulation(accumulation_dtype(a.dtype()), [&](auto zero) {
      const decltype(zero) alpha = 1, beta = accumulate ? 1 : 0;
      const ObservedProduct observed(stream, "cuBLAS", m.count, n.count, k.count);
      cublas_check(
          cublasGemmEx_64(handle, operation(transpose_b), operation(transpose_a), size(n.count),
                          size(m.count), size(k.count), &alpha, element(b, k, n, transpose_b),
                          cuda_type(b.dtype()), size(b.pitch()), element(a, m, k, transpose_a),
                          cuda_type(a.dtype()), size(a.pitch()), &beta, element(out, m, n, false),
                          cuda_type(out.dtype()), size(out.pitch()), compute_type(a.dtype()),
                          CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx_64");
    });
  }
};

// Returns whether tensor cores compute products of this dtype.
bool uses_tensor_cores(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::fp16 || (dtype == DType::fp32 && tf32);
}

// Returns how many of `extent` tensor cores like: a multiple of 8. A small product is not worth two
// calls.
size_t whole_part(size_t extent) { return extent < 64 ? extent : extent / 8 * 8; }

}  // namespace

void set_tf32(bool on) { tf32 = on; }

void leave_multiprocessors(size_t count) {
  if (count == 0) {
    Cublas::multiprocessors = 0;
    return;
  }
  int device = 0, all = 0;
  cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  cuda_check(cudaDeviceGetAttribute(&all, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute");
  if (count >= static_cast<size_t>(all)) {
    throw UserError(concat("products are to leave ", count,
                           " multiprocessors free, and the GPU has ", all,
                           "; take a smaller --nccl-ctas"));
  }
  Cublas::multiprocessors = all - static_cast<int>(count);
}

// On tensor cores, an extent that lies along the rows of a matrix should be a multiple of 8. What
// is beyond is computed by itself. In k it comes first, so that a sum in 16 bits is rounded with
// few of its terms, and then with all of them.
void matmul(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
            MatmulOptions options) {
  const bool ta = options.transpose_a, tb = options.transpose_b;
  const Product product = {stream.native(), Cublas::of(stream).handle(), out, a, b, ta, tb};
  const size_t m = out.shape()[0], n = out.shape()[1], k = a.shape()[ta ? 0 : 1];
  const bool splits = uses_tensor_cores(a.dtype()) && rows_are_aligned(out) &&
                      rows_are_aligned(a) && rows_are_aligned(b);
  const size_t whole_m = splits && ta ? whole_part(m) : m;
  const size_t whole_n = splits ? whole_part(n) : n;
  const size_t whole_k = splits && (tb || !ta) ? whole_part(k) : k;
  const bool accumulate = options.accumulate || whole_k < k;
  product.compute({0, m}, {0, n}, {whole_k, k - whole_k}, options.accumulate);
  product.compute({0, whole_m}, {0, whole_n}, {0, whole_k}, accumulate);
  product.compute({whole_m, m - whole_m}, {0, whole_n}, {0, whole_k}, accumulate);
  product.compute({0, m}, {whole_n, n - whole_n}, {0, whole_k}, accumulate);
}

}  // namespace ladder::cuda
