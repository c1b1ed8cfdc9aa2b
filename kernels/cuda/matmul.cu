#include "kernels/matmul.h"

#include <cublas_v2.h>

#include <atomic>
#include <map>

#include "kernels/cuda/bodies.h"
#include "kernels/runtime/cuda.h"

namespace ladder::cuda {
namespace {

void cublas_check(cublasStatus_t result, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  fail(concat(call, ": ", cublasGetStatusString(result)), where);
}

// cuBLAS for one stream, with memory of its own to work in: what cuBLAS takes from its pool instead
// depends on which streams are busy, and with it the way it splits a sum.
class Cublas {
 public:
  explicit Cublas(cudaStream_t stream) {
    cublas_check(cublasCreate(&handle_), "cublasCreate");
    cuda_check(cudaMalloc(&workspace_, kWorkspaceBytes), "cudaMalloc");
    cublas_check(cublasSetStream(handle_, stream), "cublasSetStream");
    // After cublasSetStream, which would take it away again.
    cublas_check(cublasSetWorkspace(handle_, workspace_, kWorkspaceBytes), "cublasSetWorkspace");
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

  cublasHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
};

// A handle belongs to one thread and one stream, and is made by their first product.
cublasHandle_t handle_of(const Stream& stream) {
  thread_local std::map<cudaStream_t, Cublas> of_stream;
  return of_stream.try_emplace(stream.native(), stream.native()).first->second.handle();
}

std::atomic<bool> tf32 = false;

// A column-major product: `first` (m, k) times `second` (k, n), the leading extents of what is
// stored beside them.
template <class T>
struct Product {
  int64_t m, n, k;
  cublasOperation_t transpose_first, transpose_second;
  const T* first;
  int64_t leading_first;
  const T* second;
  int64_t leading_second;
  T beta;
  T* out;
};

void gemm(cublasHandle_t handle, const Product<float>& p) {
  const float one = 1;
  cublas_check(cublasSetMathMode(handle, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH),
               "cublasSetMathMode");
  cublas_check(
      cublasSgemm_64(handle, p.transpose_first, p.transpose_second, p.m, p.n, p.k, &one, p.first,
                     p.leading_first, p.second, p.leading_second, &p.beta, p.out, p.m),
      "cublasSgemm_64");
}

void gemm(cublasHandle_t handle, const Product<double>& p) {
  const double one = 1;
  cublas_check(
      cublasDgemm_64(handle, p.transpose_first, p.transpose_second, p.m, p.n, p.k, &one, p.first,
                     p.leading_first, p.second, p.leading_second, &p.beta, p.out, p.m),
      "cublasDgemm_64");
}

}  // namespace

void set_tf32(bool on) { tf32 = on; }

// cuBLAS takes matrices column by column, so it sees our row-major ones transposed. It is asked for
// out^T = op(b)^T op(a)^T: the factors change places, and keep their operation.
void matmul(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
            MatmulOptions options) {
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const auto extent = [](const ConstTensorView& matrix, size_t dim) {
    return static_cast<int64_t>(matrix.shape()[dim]);
  };
  dispatch_accumulation(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    gemm(handle_of(stream), Product<T>{.m = extent(out, 1),
                                       .n = extent(out, 0),
                                       .k = extent(a, options.transpose_a ? 0 : 1),
                                       .transpose_first = operation(options.transpose_b),
                                       .transpose_second = operation(options.transpose_a),
                                       .first = b.as<T>(),
                                       .leading_first = extent(b, 1),
                                       .second = a.as<T>(),
                                       .leading_second = extent(a, 1),
                                       .beta = static_cast<T>(options.accumulate ? 1 : 0),
                                       .out = out.as<T>()});
  });
}

}  // namespace ladder::cuda
