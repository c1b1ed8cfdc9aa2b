#include "kernels/matmul.h"

#include <cublas_v2.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>

#include "kernels/runtime/cuda.h"

namespace ladder::cuda {
namespace {

void cublas_check(cublasStatus_t result, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  fail(concat(call, ": ", cublasGetStatusString(result)), where);
}

// cuBLAS for one stream, with a workspace of our own. Without it cuBLAS takes memory from its pool;
// how much depends on which streams are busy, and so does the way in which it splits a sum.
class Cublas {
 public:
  explicit Cublas(cudaStream_t stream) {
    cublas_check(cublasCreate(&handle_), "cublasCreate");
    cuda_check(cudaMalloc(&workspace_, kWorkspaceBytes), "cudaMalloc");
    cublas_check(cublasSetStream(handle_, stream), "cublasSetStream");
    // This comes after cublasSetStream, which resets the workspace.
    cublas_check(cublasSetWorkspace(handle_, workspace_, kWorkspaceBytes), "cublasSetWorkspace");
    cublas_check(cublasSetMathMode(handle_, kMathMode), "cublasSetMathMode");
  }
  ~Cublas() {
    cublasDestroy(handle_);
    cudaFree(workspace_);
  }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  cublasHandle_t handle() const { return handle_; }

 private:
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what cuBLAS recommends for sm_90
  // If a sum of bf16 or fp16 is split, its parts are added in fp32, too.
  static constexpr auto kMathMode = static_cast<cublasMath_t>(
      CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);

  cublasHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
};

// Returns the handle of this thread and this stream. Their first product makes it, and it ends with
// the stream: another one may then get the same address.
cublasHandle_t handle_of(Stream& stream) {
  thread_local std::map<cudaStream_t, std::weak_ptr<Cublas>> of_stream;
  std::weak_ptr<Cublas>& known = of_stream[stream.native()];
  std::shared_ptr<Cublas> cublas = known.lock();
  if (cublas == nullptr) {
    cublas = std::make_shared<Cublas>(stream.native());
    known = cublas;
    stream.keep(cublas);
  }
  return cublas->handle();
}

std::atomic<bool> tf32 = false;

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return CUDA_R_32F;
    case DType::fp64:
      return CUDA_R_64F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::fp16:
      return CUDA_R_16F;
    case DType::int32:
      break;
  }
  fail(concat("matmul: cuBLAS multiplies no ", name_of(dtype)));
}

// Returns the type in which cuBLAS computes. For bf16 and fp16 it uses the tensor cores by itself.
cublasComputeType_t compute_type(DType dtype) {
  if (dtype == DType::fp64) return CUBLAS_COMPUTE_64F;
  return dtype == DType::fp32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// Part of an extent of a product.
struct Range {
  size_t first, count;
};

// Returns where the part of op(matrix) begins.
template <class Void>
auto* element(const BasicView<Void>& matrix, Range rows, Range columns, bool transposed) {
  const size_t row = transposed ? columns.first : rows.first;
  const size_t column = transposed ? rows.first : columns.first;
  using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
  return static_cast<Byte*>(matrix.data()) +
         (row * matrix.pitch() + column) * size_of(matrix.dtype());
}

// One product of views, of which parts can be computed by themselves.
struct Product {
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

// Returns whether all rows begin at multiples of 16 bytes.
bool rows_are_aligned(const ConstTensorView& matrix) {
  return reinterpret_cast<uintptr_t>(matrix.data()) % 16 == 0 &&
         matrix.pitch() * size_of(matrix.dtype()) % 16 == 0;
}

// Returns how many of `extent` tensor cores like: a multiple of 8. A small product is not worth two
// calls.
size_t whole_part(size_t extent) { return extent < 64 ? extent : extent / 8 * 8; }

}  // namespace

void set_tf32(bool on) { tf32 = on; }

// On tensor cores, an extent that lies along the rows of a matrix should be a multiple of 8. What
// is beyond is computed by itself. In k it comes first, so that a sum in 16 bits is rounded with
// few of its terms, and then with all of them.
void matmul(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
            MatmulOptions options) {
  const bool ta = options.transpose_a, tb = options.transpose_b;
  const Product product = {handle_of(stream), out, a, b, ta, tb};
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
