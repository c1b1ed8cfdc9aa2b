// What products by cuBLAS have in common: handles, types, alignment.
#pragma once

#include <cublas_v2.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "kernels/kernel.h"
#include "kernels/runtime/cuda.h"
#include "kernels/runtime/launch_observer.h"

namespace ladder::cuda {

inline void cublas_check(cublasStatus_t result, const char* call,
                         std::source_location where = std::source_location::current()) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  if (result == CUBLAS_STATUS_ALLOC_FAILED)
    fail_without_device_memory(concat("cuBLAS (", call, ")"));
  fail(concat(call, ": ", cublasGetStatusString(result)), where);
}

// cuBLAS for one stream, with a workspace of our own. Without it cuBLAS takes memory from its pool;
// how much depends on which streams are busy, and so does the way in which it splits a sum.
class Cublas {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what cuBLAS recommends for sm_90

  explicit Cublas(cudaStream_t stream) {
    cublas_check(cublasCreate(&handle_), "cublasCreate");
    const cudaError_t result = cudaMalloc(&workspace_, kWorkspaceBytes);
    if (result == cudaErrorMemoryAllocation) {
      fail_without_device_memory(
          concat("cuBLAS, whose workspace takes ", human_bytes(kWorkspaceBytes), ","));
    }
    cuda_check(result, "cudaMalloc");
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

  // Returns that of this thread and this stream. Their first product makes it, and it ends with the
  // stream: another one may then get the same address.
  static Cublas& of(Stream& stream) {
    thread_local std::map<cudaStream_t, std::weak_ptr<Cublas>> of_stream;
    std::weak_ptr<Cublas>& known = of_stream[stream.native()];
    std::shared_ptr<Cublas> cublas = known.lock();
    if (cublas == nullptr) {
      cublas = std::make_shared<Cublas>(stream.native());
      known = cublas;
      stream.keep(cublas);
    }
    cublas->use_multiprocessors(multiprocessors);
    return *cublas;
  }

  // How many multiprocessors products use; 0: all. leave_multiprocessors() sets it.
  static inline std::atomic<int> multiprocessors = 0;

  cublasHandle_t handle() const { return handle_; }
  void* workspace() const { return workspace_; }

 private:
  // If a sum of bf16 or fp16 is split, its parts are added in fp32, too.
  static constexpr auto kMathMode = static_cast<cublasMath_t>(
      CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);

  void use_multiprocessors(int count) {
    if (count == used_) return;
    cublas_check(cublasSetSmCountTarget(handle_, count), "cublasSetSmCountTarget");
    used_ = count;
  }

  cublasHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  int used_ = 0;  // as cuBLAS begins
};

// While it exists, `who`, cuBLAS or cuBLASLt, is asked for a product of (M, K) and (K, N).
class ObservedProduct {
 public:
  ObservedProduct(cudaStream_t stream, const char* who, size_t m, size_t n, size_t k) {
    if (launch_observer == nullptr) return;
    observed_.emplace(stream, concat(who, " ", m, " ", n, " ", k));
  }

 private:
  std::optional<ObservedLaunch> observed_;
};

inline cudaDataType_t cuda_type(DType dtype) {
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

// Returns whether all rows begin at multiples of 16 bytes.
inline bool rows_are_aligned(const ConstTensorView& matrix) {
  return reinterpret_cast<uintptr_t>(matrix.data()) % 16 == 0 &&
         matrix.pitch() * size_of(matrix.dtype()) % 16 == 0;
}

}  // namespace ladder::cuda
