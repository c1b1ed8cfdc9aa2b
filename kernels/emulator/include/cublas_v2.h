// The part of cuBLAS that the project uses, for builds without CUDA: see
// kernels/emulator/README.md. Matrices are column-major in device memory: element (i, j) is at
// pointer[i + j * leading dimension].
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

struct cublasContext;
typedef cublasContext* cublasHandle_t;

typedef enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,  // not a live handle
  CUBLAS_STATUS_ALLOC_FAILED = 3,     // no device memory left
  CUBLAS_STATUS_INVALID_VALUE = 7,    // an argument, or a matrix that leaves its allocation
  CUBLAS_STATUS_NOT_SUPPORTED = 15,   // these types together
} cublasStatus_t;

// op(A) is A, its transpose, or its conjugate transpose (the same for real numbers).
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 } cublasOperation_t;

// Says how much a GPU may round while it multiplies. In a TF32 mode the emulator rounds the factors
// of every product in fp32.
typedef enum {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
  // This is combined with one of the others: parts of a sum are added in the compute type. The
  // emulator never splits a sum, but without this flag a product of 16 bits throws an Error.
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16,
} cublasMath_t;

// The types of elements: fp32, fp64, fp16, bf16.
typedef enum {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_R_16BF = 14,
} cudaDataType_t;

// The types in which products are computed. TF32 rounds the factors to 11 significant bits.
typedef enum {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
} cublasComputeType_t;

typedef enum { CUBLAS_GEMM_DEFAULT = -1 } cublasGemmAlgo_t;

extern "C" {

const char* cublasGetStatusString(cublasStatus_t status);  // a sentence

cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
// From then on products use at most `count` multiprocessors, or all if it is 0. In the emulator
// that changes nothing, but more than the GPU has are an error.
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int count);
// Gives cuBLAS device memory as its workspace, aligned to 256 bytes. The emulator needs none, but a
// product without one throws an Error: a GPU may then split a sum in another way in each run.
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes);

// C (m, n) = alpha op(A) (m, k) op(B) (k, n) + beta C; alpha and beta in host memory. With beta 0
// nothing is read from C. The names ending in _64 take sizes beyond 2^31.
//   computed in 64F              A, B, C 64F; alpha, beta double
//   computed in 32F, FAST_TF32   A, B, C 32F; alpha, beta float
//   computed in 32F              A, B 16BF or 16F, C the same or 32F; alpha, beta float
cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t op_a,
                               cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
                               const void* alpha, const void* a, cudaDataType_t a_type, int64_t lda,
                               const void* b, cudaDataType_t b_type, int64_t ldb, const void* beta,
                               void* c, cudaDataType_t c_type, int64_t ldc,
                               cublasComputeType_t compute_type, cublasGemmAlgo_t algorithm);

}  // extern "C"
