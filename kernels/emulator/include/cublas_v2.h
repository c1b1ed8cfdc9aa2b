// What the project uses of cuBLAS, when there is no CUDA: see kernels/emulator/README.md. Matrices
// are column-major in device memory: element (i, j) is at pointer[i + j * leading dimension].
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

struct cublasContext;
typedef cublasContext* cublasHandle_t;

typedef enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,  // not a live handle
  CUBLAS_STATUS_INVALID_VALUE = 7,    // an argument, or a matrix that leaves its allocation
} cublasStatus_t;

// op(A) is A, its transpose, or its conjugate transpose (the same for real numbers).
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 } cublasOperation_t;

// How much a GPU may round while it multiplies. The emulator does not round more than fp32.
typedef enum {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
} cublasMath_t;

extern "C" {

const char* cublasGetStatusString(cublasStatus_t status);  // a sentence

cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
// Device memory for cuBLAS to work in, aligned to 256 bytes; the emulator needs none.
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes);

// C (m, n) = alpha op(A) (m, k) op(B) (k, n) + beta C; alpha and beta in host memory. With beta 0
// nothing is read from C. The names ending in _64 take sizes beyond 2^31.
cublasStatus_t cublasSgemm_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                              int64_t m, int64_t n, int64_t k, const float* alpha, const float* a,
                              int64_t lda, const float* b, int64_t ldb, const float* beta, float* c,
                              int64_t ldc);
cublasStatus_t cublasDgemm_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                              int64_t m, int64_t n, int64_t k, const double* alpha, const double* a,
                              int64_t lda, const double* b, int64_t ldb, const double* beta,
                              double* c, int64_t ldc);

// The same for `count` triples of matrices that lie a stride (in elements) apart.
cublasStatus_t cublasSgemmStridedBatched_64(cublasHandle_t handle, cublasOperation_t op_a,
                                            cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
                                            const float* alpha, const float* a, int64_t lda,
                                            long long stride_a, const float* b, int64_t ldb,
                                            long long stride_b, const float* beta, float* c,
                                            int64_t ldc, long long stride_c, int64_t count);
cublasStatus_t cublasDgemmStridedBatched_64(cublasHandle_t handle, cublasOperation_t op_a,
                                            cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
                                            const double* alpha, const double* a, int64_t lda,
                                            long long stride_a, const double* b, int64_t ldb,
                                            long long stride_b, const double* beta, double* c,
                                            int64_t ldc, long long stride_c, int64_t count);

}  // extern "C"
