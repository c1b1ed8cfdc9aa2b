#include "kernels/matmul.h"

#include <cublas_v2.h>

#include <atomic>
#include <map>
#include <memory>

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

}  // namespace

void set_tf32(bool on) { tf32 = on; }

// cuBLAS expects matrices column by column, so it sees our row-major ones transposed. We ask it for
// out^T = op(b)^T op(a)^T: the factors change places and keep their operations.
void matmul(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
            MatmulOptions options) {
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const auto extent = [](const ConstTensorView& matrix, size_t dim) {
    return static_cast<int64_t>(matrix.shape()[dim]);
  };
  dispatch_accumulation(accumulation_dtype(a.dtype()), [&](auto zero) {
    const decltype(zero) alpha = 1, beta = options.accumulate ? 1 : 0;
    cublas_check(cublasGemmEx_64(handle_of(stream), operation(options.transpose_b),
                                 operation(options.transpose_a), extent(out, 1), extent(out, 0),
                                 extent(a, options.transpose_a ? 0 : 1), &alpha, b.data(),
                                 cuda_type(b.dtype()), extent(b, 1), a.data(), cuda_type(a.dtype()),
                                 extent(a, 1), &beta, out.data(), cuda_type(out.dtype()),
                                 extent(out, 1), compute_type(a.dtype()), CUBLAS_GEMM_DEFAULT),
                 "cublasGemmEx_64");
  });
}

}  // namespace ladder::cuda
